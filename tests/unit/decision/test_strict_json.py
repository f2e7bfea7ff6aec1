"""Strict JSON: what a lenient parser would repair in silence is refused with its place."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.decision.strict_json import MAX_NESTING, parse_json
from worker.errors import Rejected

NOT_FINITE = "a number is not finite"
SURROGATE = "a string holds a lone surrogate"
TOO_DEEP = "nested deeper than 64 levels"

text = st.text(st.characters(codec="utf-8"))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)
# Not ASCII, so that no word of our own messages can be drawn.
markers = st.text(
    st.characters(codec="utf-8", categories=["L"], min_codepoint=0x370), min_size=4, max_size=20
)


def refusal(body: str | bytes, **options: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        parse_json(body, **options)
    return caught.value


@given(json_values, st.booleans())
def test_json_is_read_as_it_is(value: Any, escaped: bool) -> None:
    """Everything that is strict JSON comes back unchanged, escaped or not, fields in order."""
    body = json.dumps(value, ensure_ascii=escaped)

    assert value == parse_json(body)
    assert value == parse_json(body.encode())
    assert body == json.dumps(parse_json(body), ensure_ascii=escaped)


@pytest.mark.parametrize(
    ("body", "message", "where"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "the object repeats a key (its key number 3)", ""),
        ('{"a": 1, "a": 1}', "the object repeats a key (its key number 2)", ""),
        (
            '{"questions": {"q": {"type": "noul", "type": "noul"}}}',
            "the object repeats a key (its key number 2)",
            "questions.q",
        ),
        (
            r'{"questions": {"q": 1, "\u0071": 2}}',
            "the object repeats a key (its key number 2)",
            "questions",
        ),
        (
            '{"state": [{"k": 0}, {"k": 1, "k": 2}]}',
            "the object repeats a key (its key number 2)",
            "state.1",
        ),
        ('{"state": NaN}', NOT_FINITE, "state"),
        ('{"state": {"k": Infinity}}', NOT_FINITE, "state.#1"),
        ("[1, -Infinity]", NOT_FINITE, "1"),
        ('{"x": {"y": [0, {"z": 1e999}]}}', NOT_FINITE, "#1.#1.1.#1"),
        ('{"x": -1e999}', NOT_FINITE, "#1"),
        ("NaN", NOT_FINITE, ""),
        (r'{"x": "a\ud800b"}', SURROGATE, "#1"),
        (r'{"x": ["\udc00"]}', SURROGATE, "#1.0"),
        (r'{"x": "\ude00\ud83d"}', SURROGATE, "#1"),
        (r'{"x": {"\ud800": 1}}', "a key holds a lone surrogate", "#1"),
        ('{"x": "\ud800"}', SURROGATE, "#1"),
        (r'{"metadata": {"a": "fine", "b": "\ud800"}}', SURROGATE, "metadata.#2"),
    ],
)
def test_what_a_lenient_parser_repairs_is_refused(body: str, message: str, where: str) -> None:
    """Repeated keys, numbers that are not finite and lone surrogates are refused by place."""
    error = refusal(body)

    assert ("invalid_ticket", message, where) == (error.code, error.message, error.where)


def test_a_surrogate_pair_is_a_character() -> None:
    """A character beyond the basic plane, escaped as a pair, is not a lone surrogate."""
    assert {"x": "😀"} == parse_json(r'{"x": "\ud83d\ude00"}')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "not JSON: Expecting value at line 1 column 1"),
        ("{", "not JSON: Expecting property name enclosed in double quotes at line 1 column 2"),
        ('{"a": 1}\n x', "not JSON: Extra data at line 2 column 2"),
        ("{'a': 1}", "not JSON: Expecting property name"),
        ('{"a": "\t"}', "not JSON: Invalid control character at"),
        ('\ufeff{"a": 1}', "not JSON: "),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8 at byte 0"),
    ],
)
def test_what_is_not_json_is_refused_with_its_position(body: str | bytes, message: str) -> None:
    """A syntax error names line and column, a wrong encoding the byte."""
    error = refusal(body)

    assert error.message.startswith(message)
    assert "" == error.where


def test_the_code_is_the_callers() -> None:
    """Files that are no tickets are refused under their own code, whatever is wrong."""
    bodies = ["{", b"\xff", "NaN", "[" * 100_000, "9" * 5000]

    assert {"invalid_set"} == {refusal(body, code="invalid_set").code for body in bodies}


def nested(opening: str, inner: str, closing: str, levels: int) -> str:
    return opening * levels + inner + closing * levels


@pytest.mark.parametrize(
    ("opening", "inner", "closing"), [("[", "1", "]"), ('{"k":', "1", "}"), ("[", "", "]")]
)
def test_sixty_four_levels_are_the_most(opening: str, inner: str, closing: str) -> None:
    """Nesting is allowed to its limit, and refused one level deeper."""
    parse_json(nested(opening, inner, closing, MAX_NESTING))

    assert TOO_DEEP == refusal(nested(opening, inner, closing, MAX_NESTING + 1)).message


@pytest.mark.parametrize("opening", ["[", '{"k":'])
@pytest.mark.parametrize("levels", [500, 100_000])
def test_nesting_cannot_exhaust_the_stack(opening: str, levels: int) -> None:
    """A hundred thousand levels are refused like sixty-five: at once, with the same words."""
    closing = "]" if opening == "[" else "}"
    started_at = time.monotonic()

    assert TOO_DEEP == refusal(nested(opening, "1", closing, levels)).message
    assert time.monotonic() - started_at < 2


def test_a_number_with_thousands_of_digits_is_refused() -> None:
    """Python's limit on the digits of an integer is a refusal, not a fault."""
    assert 10**400 == parse_json("1" + "0" * 400)
    assert "a number has too many digits" == refusal('{"x": ' + "9" * 5000 + "}").message


BROKEN = [math.nan, math.inf, "\ud800"]


@given(
    st.sampled_from(["state", "metadata"]),
    st.lists(markers, min_size=1, max_size=5, unique=True),
    st.sampled_from(BROKEN),
)
def test_the_customers_keys_are_never_named(field: str, keys: list[str], broken: Any) -> None:
    """A place inside state or metadata is given by position, for its keys are customer text."""
    inner: Any = broken
    for key in keys:
        inner = {"": 0, key: inner}
    error = refusal(json.dumps({field: inner}))

    assert ".".join([field, *["#2"] * len(keys)]) == error.where
    assert not any(key in str(error) for key in keys)


@given(markers, st.data())
def test_a_refusal_never_repeats_the_text(marker: str, data: st.DataObject) -> None:
    """Wherever JSON is cut off or spoilt, the refusal holds none of its text."""
    body = json.dumps({"state": {marker: [marker, {marker: marker}]}, "x": marker})
    cut = data.draw(st.integers(0, len(body) - 1))
    spoilt = body[:cut] + data.draw(st.sampled_from(["", "\\", "NaN", "}", '"', "\x00"]))

    assert marker not in str(refusal(spoilt))
