"""Parse JSON strictly: what a lenient parser would repair in silence is refused with its place."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from worker.errors import Rejected

MAX_NESTING = 64

# Objects below these top-level fields hold the customer's own keys, so a place inside them is
# given by position.
_CUSTOMER_FIELDS = frozenset({"state", "metadata"})


_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Duplicate:
    """Stands in the parsed tree for an object that repeats the key at *position*."""

    position: int


@dataclass(frozen=True, slots=True)
class _NotFinite:
    """Stands in the parsed tree for NaN or an infinity."""


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


def _check(tree: Any, code: str) -> None:
    waiting: list[tuple[Any, tuple[str, ...]]] = [(tree, ())]
    while waiting:
        node, path = waiting.pop()
        fault = _fault(node, len(path))
        if fault:
            raise Rejected(code, fault, ".".join(path))
        waiting.extend((child, (*path, name)) for name, child in _children(node, path))


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


def _children(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list):
        return ((str(index), child) for index, child in enumerate(node))
    if not isinstance(node, dict):
        return iter(())
    if path and path[0] in _CUSTOMER_FIELDS:
        return ((f"#{index + 1}", child) for index, child in enumerate(node.values()))
    return ((key, child) for key, child in node.items())


def _is_finite(number: float) -> bool:
    return number - number == 0


def _has_lone_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None
