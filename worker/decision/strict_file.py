"""Parse files that people write, YAML or JSON, as strictly as tickets.

YAML is read so that a text stays what it looks like: every key is text (``no:``, ``1:`` and
``true:`` are the options no, 1 and true), only ``true`` and ``false`` are truth values, and dates
are text. What would make a file mean more than it shows is refused: repeated keys, aliases, tags.
"""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from worker.decision.strict_json import parse_json
from worker.decision.ticket import first_fault
from worker.errors import Rejected, UsageError

MAX_FILE_BYTES = 1 << 20

Document = TypeVar("Document", bound=BaseModel)


def read_document(kind: type[Document], name: str, content: bytes) -> Document:
    """Parse a file and validate it.

    Args:
        kind: the model of what it holds.
        name: of the file; JSON when it ends so, else YAML.
        content: its bytes.

    Raises:
        UsageError: naming the file, the place and the reason.
    """
    tree = parse_file(name, content)
    if not isinstance(tree, dict):
        raise UsageError(f"{name}: must be an object")
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        where, message = _first_fault(error)
        raise UsageError(f"{name}: {where}: {message}" if where else f"{name}: {message}") from None


def _first_fault(error: ValidationError) -> tuple[str, str]:
    """Return place and sentence; unlike a ticket's, a file's fields may be named."""
    where, message = first_fault(error)
    fault = error.errors(include_url=False, include_input=False)[0]
    if fault["type"] == "extra_forbidden":
        field = ascii(fault["loc"][-1])
        return where, f"there is no field {field} here"
    return where, message


def parse_file(name: str, content: bytes) -> Any:
    """Parse a file to JSON data.

    Raises:
        UsageError: not UTF-8, neither JSON nor YAML, or more than those are allowed here.
    """
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{name}: has {len(content)} bytes, at most {MAX_FILE_BYTES} are read")
    try:
        if name.lower().endswith(".json"):
            return parse_json(content, code="")
        # Once more through JSON: it finds what YAML lets through, such as NaN.
        return parse_json(json.dumps(_parse_yaml(content.decode("utf-8"))), code="")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1} column {mark.column + 1}: " if mark else ""
        raise UsageError(f"{name}: {place}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise UsageError(f"{name}: a character is not allowed: U+{_code(error):04X}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise UsageError(f"{name}: nested too deeply") from None
    except ValueError:  # a number that Python does not convert
        raise UsageError(f"{name}: a number cannot be read") from None
    except Rejected as fault:
        raise UsageError(f"{name}: {fault}") from None


def _code(error: yaml.reader.ReaderError) -> int:
    character: Any = error.character
    return ord(character) if isinstance(character, str) else int(character)


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, without what would surprise whoever wrote the file."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - as its base declares it

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark: Any = self.get_mark()
            raise yaml.composer.ComposerError(
                None, None, "aliases are not allowed; write it out", mark
            )
        return super().compose_node(parent, index)

    def construct_object_of_text(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _refusal("a key must be text", key_node)
            if key_node.value in found:
                raise _refusal("the key is repeated", key_node)
            found[key_node.value] = self.construct_object(value_node, deep=True)
        return found

    def construct_refused(self, node: Any) -> Any:
        raise _refusal(f"the tag {node.tag} is not allowed", node)


def _refusal(problem: str, node: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_TAG = "tag:yaml.org,2002:"

# YAML 1.2's core schema, with JSON's numbers.
_SCALARS: dict[str, tuple[re.Pattern[str], str]] = {
    "null": (re.compile(r"|null|~"), "~n"),
    "bool": (re.compile(r"true|false"), "tf"),
    "int": (re.compile(r"-?(0|[1-9][0-9]*)"), "-0123456789"),
    "float": (
        re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|-?\.inf|\.nan"),
        "-.0123456789",
    ),
}
_READERS: dict[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": lambda text: text == "true",
    "int": int,
    "float": lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
}


def _scalar_reader(read: Callable[[str], Any]) -> Callable[[_Loader, Any], Any]:
    return lambda loader, node: read(str(loader.construct_scalar(node)))


for _kind, (_pattern, _first) in _SCALARS.items():
    # `$` would also match before a line break.
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z")
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", _whole, [*_first, ""])
_Loader.yaml_constructors = {
    f"{_TAG}map": _Loader.construct_object_of_text,
    f"{_TAG}seq": lambda loader, node: loader.construct_sequence(node, deep=True),
    f"{_TAG}str": lambda loader, node: loader.construct_scalar(node),
    **{f"{_TAG}{kind}": _scalar_reader(read) for kind, read in _READERS.items()},
    None: _Loader.construct_refused,
}


def _parse_yaml(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
