"""Write the JSON Schemas that ship in the package anew, after a change of a model."""

import json
from pathlib import Path

from worker.decision import schemas

for name in schemas.NAMES:
    text = json.dumps(schemas.make(name), ensure_ascii=False, indent=2) + "\n"
    path = Path(schemas.__file__).with_name(schemas.file_name(name))
    path.write_text(text, "utf-8")
    print(path)
