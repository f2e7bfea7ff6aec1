"""Hash JSON data so that the same data has the same hash everywhere."""

import hashlib
import json
from typing import Any


def canonical_sha256(value: Any) -> str:
    """Hash JSON data: UTF-8, no spaces, fields in their order, since order carries meaning."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
