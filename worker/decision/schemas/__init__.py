"""JSON Schemas of what people write and read, made from the models that validate it.

What pydantic cannot word of the models' own checks is worded here once more, and a test holds that
both say the same. In no schema: repeated keys, lone surrogates, depth and size, and names in one
place of a file that must be those of another.
"""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any, Literal, get_args

from pydantic import BaseModel

from worker.decision.attributes import ATTRIBUTE_ID
from worker.decision.model_manifest import ModelManifest
from worker.decision.outcome import Outcome
from worker.decision.policy_file import Policy
from worker.decision.question_set import QuestionSet
from worker.decision.ticket import NOT_TEXT, Ticket

Schema = dict[str, Any]
Name = Literal["ticket", "outcome", "question-set", "policy", "model-manifest"]
NAMES: tuple[Name, ...] = get_args(Name)

_MODELS: dict[Name, type[BaseModel]] = {
    "ticket": Ticket,
    "outcome": Outcome,
    "question-set": QuestionSet,
    "policy": Policy,
    "model-manifest": ModelManifest,
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*?)(?=^ {4}\w|\Z)", re.MULTILINE | re.DOTALL)


def make(name: Name) -> Schema:
    """Make the schema of a format from its model."""
    model = _MODELS[name]
    written = model is Outcome
    schema = model.model_json_schema(mode="serialization" if written else "validation")
    for key, part in {**schema.get("$defs", {}), model.__name__: schema}.items():
        if written:
            _as_published(part)
        _describe(part)
        if key in _RULES:
            part["allOf"] = _RULES[key]
    _drop_titles(schema)
    return {"$schema": _DIALECT, "title": f"decision-worker {name}", **schema}


def file_name(name: Name) -> str:
    """Return the name of the file that a schema is shipped in, beside this one."""
    return f"{name}.schema.json"


def shipped(name: Name) -> str:
    """Return the text of a schema's file."""
    return (resources.files(__package__) / file_name(name)).read_text("utf-8")


def _as_published(part: Schema) -> None:
    """Require what is always there; what may be missing is never null, since that is left out."""
    required = []
    for name, field in part.get("properties", {}).items():
        if "default" in field and field["default"] is None:
            del field["default"]
            [only] = [kind for kind in field.pop("anyOf") if kind != {"type": "null"}]
            field.update(only)
        else:
            required.append(name)
    if required:
        part["required"] = required


def _describe(part: Schema) -> None:
    """Give each field the sentence that its model's docstring has about it."""
    text, _, fields = part.get("description", "").partition("\n\nAttributes:\n")
    for name, sentence in _ATTRIBUTE.findall(fields):
        if name in part["properties"]:
            part["properties"][name]["description"] = " ".join(sentence.split())
    if text:
        part["description"] = " ".join(text.split())


def _drop_titles(schema: Schema) -> None:
    """Leave out what pydantic makes of a field's name, which says nothing more."""
    for part in _schemas(schema):
        part.pop("title", None)


def _schemas(schema: Schema) -> Iterator[Schema]:
    """Yield a schema and all schemas in it."""
    yield schema
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            children = list(value.values())
        elif key in ("anyOf", "oneOf", "allOf"):
            children = value
        else:
            children = [value] if key in ("items", "additionalProperties") else []
        for child in children:
            if isinstance(child, dict):
                yield from _schemas(child)


def _has(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _fields(**properties: Schema) -> Schema:
    return {"properties": properties}


def _with(status: str, *required: str) -> Schema:
    return {"properties": {"status": {"const": status}}, "required": list(required)}


_TEXT = {"type": ["string", "object", "array"]}
_SAYS_SOMETHING = {**_TEXT, "minLength": 1, "minProperties": 1, "minItems": 1}
_NO_EMPTY_NAMES = {"propertyNames": {"minLength": 1}}
_NOTHING: Schema = {"enum": [None, False, 0, "", [], {}]}

# By model: what its validators check, or its writer sees to.
_RULES: dict[str, list[Schema]] = {
    "Ticket": [
        {"oneOf": [_has(state=_TEXT), _has(state_uri={"type": "string"})]},
        {"oneOf": [_has(questions={"type": "object"}), _has(question_set={"type": "string"})]},
        _fields(questions=_NO_EMPTY_NAMES, **dict.fromkeys(NOT_TEXT, _NOTHING)),
    ],
    "Choice": [_fields(criteria=_NO_EMPTY_NAMES)],
    "Noul": [
        {
            "anyOf": [
                _has(instructions=_SAYS_SOMETHING),
                _has(criteria=_has(true=_SAYS_SOMETHING)),
                _has(criteria=_has(false=_SAYS_SOMETHING)),
            ]
        }
    ],
    "QuestionSet": [_fields(questions=_NO_EMPTY_NAMES)],
    "Defaults": [
        _fields(attributes={"uniqueItems": True, "items": {"pattern": f"^{ATTRIBUTE_ID.pattern}$"}})
    ],
    "Outcome": [
        {
            "oneOf": [
                _with("decided", "answers", "disposition", "usage", "timings"),
                _with("rejected", "error"),
            ]
        }
    ],
}
