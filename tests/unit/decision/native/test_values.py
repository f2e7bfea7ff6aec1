"""Values as llama.cpp's template engine prints and serialises them; read off its own server."""

from typing import Any

import pytest

from worker.decision.native.values import as_json, native_value, printed


@pytest.mark.parametrize(
    ("value", "serialised", "shown"),
    [
        ("a<b>&'\"\\\n\x01\x7fé", '"a<b>&\'\\"\\\\\\n\\u0001\x7fé"', "a<b>&'\"\\\n\x01\x7fé"),
        (None, "null", ""),
        (True, "true", "True"),
        (7, "7", "7"),
        (2**63 - 1, "9223372036854775807", "9223372036854775807"),
        (2**63, "-9223372036854775808", "-9223372036854775808"),
        (2**64 - 1, "-1", "-1"),
        (2**64, "1.84467e+19", "18446744073709551616.0"),
        (-(2**63) - 1, "-9.22337e+18", "-9223372036854775808.0"),
        (1.0, "1", "1.0"),
        (-0.0, "-0", "-0.0"),
        (0.1 + 0.2, "0.3", "0.3"),
        (1234567.5, "1.23457e+06", "1234567.5"),
        (1e-7, "1e-07", "0.0"),
        ([1, ["a", None], {"k": 1}], '[1, ["a", null], {"k": 1}]', "1a"),
        ({"b": 1, "a": {"y": [], "x": {}}}, '{"b": 1, "a": {"y": [], "x": {}}}', ""),
    ],
)
def test_values_look_as_llama_cpps(value: Any, serialised: str, shown: str) -> None:
    """Numbers of 64 bits, six significant digits, keys in their order, null printed as nothing."""
    held = native_value(value)

    assert serialised == as_json(held)
    assert shown == str(printed(held))


def test_keys_are_sorted_for_those_who_were_trained_so() -> None:
    """In every object, by code point."""
    value = {"b": [{"z": 1, "Z": 2}], "ä": 3, "a": None}

    assert '{"a": null, "b": [{"Z": 2, "z": 1}], "ä": 3}' == as_json(
        native_value(value, sort_keys=True)
    )


def test_json_can_be_laid_out() -> None:
    """By the arguments that llama.cpp's filter knows, also after the plain text was asked for."""
    value = native_value({"a": [1, {}], "ü": 1.5})

    assert '{"a": [1, {}], "ü": 1.5}' == as_json(value)
    assert '{"a":[1,{}],"ü":1.5}' == as_json(value, separators=(",", ":"))
    assert '{"a": [1, {}], "\\u00fc": 1.5}' == as_json(value, ensure_ascii=True)
    assert '{\n  "a": [\n    1,\n    {}\n  ],\n  "ü": 1.5\n}' == as_json(value, indent=2)


def test_only_characters_beyond_ascii_are_escaped() -> None:
    """U+007F is ASCII, whatever Python thinks of it."""
    assert '"\x7f\\\\u007f\\u00e9"' == as_json("\x7f\\u007fé", ensure_ascii=True)
    assert '{"\x7f": 1}' == as_json({"\x7f": 1}, ensure_ascii=True)
