"""Parse JSON strictly: what a lenient parser would repair in silence is refused with its place."""

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from worker.errors import Rejected

MAX_NESTING = 64

# The ticket's fields, the only keys of a body's top level that a place may spell.
_FIELDS = frozenset(
    {"ticket_id", "state", "state_uri", "questions", "question_set", "model", "metadata"}
)

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Duplicate:
    """Stands in the parsed tree for an object that repeats the key at *position*."""

    position: int


@dataclass(frozen=True, slots=True)
class _NotFinite:
    """Stands in the parsed tree for NaN or an infinity."""


_CAN_BE_WRONG = (dict, list, str, float, _Duplicate, _NotFinite)


def parse_json(text: str | bytes, *, code: str = "invalid_ticket") -> Any:
    """Parse *text* as JSON.

    Raises:
        Rejected: not UTF-8, not JSON, a duplicate key, a number that is not finite, a lone
            surrogate, or nesting over 64 levels.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        tree = json.loads(decoded, object_pairs_hook=_object, parse_constant=lambda _: _NotFinite())
    except UnicodeDecodeError as error:
        raise Rejected(code, f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Rejected(
            code, f"not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise Rejected(code, f"nested deeper than {MAX_NESTING} levels") from None
    except ValueError:  # an integer with more digits than Python converts
        raise Rejected(code, "a number has too many digits") from None
    _check(tree, code)
    return tree


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Duplicate:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for position, (key, _) in enumerate(pairs):
        if key in seen:
            return _Duplicate(position)
        seen.add(key)
    raise AssertionError("fewer keys than pairs, yet no key repeats")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a container is: a chain up to the root, worded only when something is wrong."""

    name: str
    above: "_Place | None"
    depth: int

    def path(self) -> tuple[str, ...]:
        names: list[str] = []
        place: _Place | None = self
        while place is not None and place.depth:
            names.append(place.name)
            place = place.above
        return tuple(reversed(names))


def _check(tree: Any, code: str) -> None:
    waiting: list[tuple[Any, _Place]] = [(tree, _Place("", None, 0))]
    while waiting:
        node, place = waiting.pop()
        fault = _fault(node, place.depth)
        if fault:
            raise Rejected(code, fault, ".".join(place.path()))
        if isinstance(node, dict):
            children = enumerate(node.values())
        elif isinstance(node, list):
            children = enumerate(node)
        else:
            continue
        for index, child in children:
            # Most nodes are harmless and need no place: a body may hold half a million numbers.
            if isinstance(child, _CAN_BE_WRONG) and not _is_harmless(child):
                name = _name(node, index, place)
                waiting.append((child, _Place(name, place, place.depth + 1)))


def _is_harmless(node: Any) -> bool:
    return (isinstance(node, str) and not _has_lone_surrogate(node)) or (
        isinstance(node, float) and _is_finite(node)
    )


def _fault(node: Any, depth: int) -> str | None:
    if isinstance(node, _Duplicate):
        return f"the object repeats a key (its key number {node.position + 1})"
    if isinstance(node, _NotFinite) or (isinstance(node, float) and not _is_finite(node)):
        return "a number is not finite"
    if isinstance(node, str) and _has_lone_surrogate(node):
        return "a string holds a lone surrogate"
    if isinstance(node, dict | list) and depth >= MAX_NESTING:
        return f"nested deeper than {MAX_NESTING} levels"
    if isinstance(node, dict) and any(map(_has_lone_surrogate, node)):
        return "a key holds a lone surrogate"
    return None


def _name(parent: Any, index: int, place: _Place) -> str:
    """Name a child: keys of the format are spelled, those that a customer chose are counted."""
    if isinstance(parent, list):
        return str(index)
    key = next(islice(parent, index, None))
    path = place.path()
    if not path:
        spelled = key in _FIELDS
    else:  # a question's id, its fields, and its options; nothing inside a structured text
        spelled = path[0] == "questions" and (len(path) < 3 or path[2:] == ("criteria",))
    return key if spelled else f"#{index + 1}"


def _is_finite(number: float) -> bool:
    return number - number == 0


def _has_lone_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None
