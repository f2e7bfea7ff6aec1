"""The temperatures in a decision model's metadata."""

import struct
from collections.abc import Mapping

from worker.errors import CannotRun

_LEV_BUCKETS = ((8, "small"), (26, "mid"))
_BUCKETS = ((2, "2"), (5, "3_5"), (10, "6_10"))


class Temperatures:
    """Temperatures by question type, some for a range of option counts.

    Args:
        kind: the decision type's name.
        by_name: such as ``choice`` or ``choice.3_5``.
    """

    def __init__(self, kind: str, by_name: Mapping[str, float]) -> None:
        is_lev = kind == "lev"
        self._buckets = _LEV_BUCKETS if is_lev else _BUCKETS
        self._more = "large" if is_lev else "11"
        self.by_name = dict(by_name)

    def find(self, question_type: str, options: int) -> float:
        """Return the temperature for a question: its range's, else its type's, else 1."""
        bucket = next((name for most, name in self._buckets if options <= most), self._more)
        for name in (f"{question_type}.{bucket}", question_type):
            if name in self.by_name:
                return self.by_name[name]
        return 1.0


def read_temperatures(kind: str, architecture: str, metadata: Mapping[str, str]) -> Temperatures:
    """Read the temperatures of a GGUF.

    Args:
        kind: the decision type's name.
        architecture: the model's.
        metadata: the GGUF's, as text by key.

    Raises:
        CannotRun: one is not a number over zero.
    """
    prefix = f"{architecture}.decision.temperature."
    found = {}
    for key, text in metadata.items():
        if key.startswith(prefix):
            found[key.removeprefix(prefix)] = _positive(key, text)
    return Temperatures(kind, found)


def _positive(key: str, text: str) -> float:
    try:
        (value,) = struct.unpack("f", struct.pack("f", float(text)))  # llama.cpp holds 32 bits
    except (ValueError, OverflowError):
        value = 0.0
    if not 0 < value < float("inf"):
        raise CannotRun(f"{key} in the model's metadata must be a number over zero, not {text}")
    return float(value)
