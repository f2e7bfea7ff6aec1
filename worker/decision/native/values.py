"""JSON values as llama.cpp's template engine holds, prints and serialises them."""

import json
from collections.abc import Iterator
from typing import Any

import jinja2

_INT64, _UINT64 = 1 << 63, 1 << 64
_JSON_SEPARATORS = (", ", ": ")


class Float(float):
    """A number that prints with six decimals at most and at least one, and never an exponent."""

    def __str__(self) -> str:
        text = f"{float(self):f}".rstrip("0")
        return f"{text}0" if text.endswith(".") else text

    __repr__ = __str__


class Object(dict[str, Any]):
    """An object that remembers its JSON text, since each question's prompt repeats the state."""

    json_text: str | None = None


class Array(list[Any]):
    """An array that remembers its JSON text."""

    json_text: str | None = None


def native_value(value: Any, *, sort_keys: bool = False) -> Any:
    """Return a parsed JSON value as llama.cpp's templates see it.

    Integers wrap to 64 bits; larger ones, as all other numbers, are floats.

    Args:
        value: text, number, boolean, None, list or dict.
        sort_keys: whether each object's keys are sorted, by code point.
    """
    if isinstance(value, dict):
        items = sorted(value.items()) if sort_keys else value.items()
        return Object((key, native_value(item, sort_keys=sort_keys)) for key, item in items)
    if isinstance(value, list):
        return Array(native_value(item, sort_keys=sort_keys) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int) and -_INT64 <= value < _UINT64:
        return value - _UINT64 if value >= _INT64 else value
    return Float(value)


def printed(value: Any) -> Any:
    """Return what ``{{ value }}`` prints: nothing for null and objects, all items of an array."""
    if value is None or isinstance(value, dict | jinja2.Undefined):
        return ""
    if isinstance(value, list | tuple):
        return "".join(str(printed(item)) for item in value)
    return Float(value) if isinstance(value, float) else value


def as_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
) -> str:
    """Serialise a value; the template filter ``tojson``. Floats have six significant digits.

    Args:
        value: what :func:`native_value` returned, or a part of it.
        ensure_ascii: escape all other characters.
        indent: spaces for each level, on lines of their own; None: one line.
        separators: between items, and between key and item.
    """
    plain = isinstance(value, Object | Array) and not ensure_ascii and not indent and not separators
    if not plain:
        return "".join(_pieces(value, ensure_ascii, indent or 0, separators or _JSON_SEPARATORS))
    if value.json_text is None:
        value.json_text = "".join(_pieces(value, ensure_ascii, 0, _JSON_SEPARATORS))
    return str(value.json_text)


def _pieces(
    value: Any, ensure_ascii: bool, indent: int, separators: tuple[str, str], level: int = 1
) -> Iterator[str]:
    if isinstance(value, float):
        yield f"{float(value):g}"
    elif not isinstance(value, dict | list | tuple):
        yield _scalar(value, ensure_ascii)
    elif not value:
        yield "{}" if isinstance(value, dict) else "[]"
    else:
        item_separator, key_separator = separators
        line = f"\n{' ' * indent * level}" if indent else ""
        between = item_separator.rstrip() + line if indent else item_separator
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        for number, item in enumerate(value):
            yield between if number else line
            if isinstance(value, dict):
                yield _scalar(item, ensure_ascii) + key_separator
                item = value[item]  # noqa: PLW2901
            yield from _pieces(item, ensure_ascii, indent, separators, level + 1)
        yield f"\n{' ' * indent * (level - 1)}{closing}" if indent else closing


def _scalar(value: Any, ensure_ascii: bool) -> str:
    if isinstance(value, str) and "\x7f" in value:  # ASCII, yet Python would escape it
        parts = (json.dumps(part, ensure_ascii=ensure_ascii)[1:-1] for part in value.split("\x7f"))
        return '"' + "\x7f".join(parts) + '"'
    return json.dumps(value, ensure_ascii=ensure_ascii)
