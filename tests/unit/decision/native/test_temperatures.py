"""The temperatures of a decision model."""

import struct

import pytest

from worker.decision.native.temperatures import Temperatures, read_temperatures
from worker.errors import CannotRun


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("openjev", 1, "2"),
        ("openjev", 2, "2"),
        ("openjev", 3, "3_5"),
        ("nimble", 5, "3_5"),
        ("lfm2-d1", 6, "6_10"),
        ("openjev", 10, "6_10"),
        ("pplx-decider", 11, "11"),
        ("lev", 8, "small"),
        ("lev", 9, "mid"),
        ("lev", 26, "mid"),
        ("lev", 27, "large"),
    ],
)
def test_a_range_of_option_counts_has_its_own(kind: str, options: int, name: str) -> None:
    """The range's temperature, else the type's, else one."""
    assert 3.0 == Temperatures(kind, {f"choice.{name}": 3.0, "choice": 2.0}).find("choice", options)
    assert 2.0 == Temperatures(kind, {"choice": 2.0, f"noul.{name}": 3.0}).find("choice", options)
    assert 1.0 == Temperatures(kind, {"score": 2.0}).find("choice", options)


def test_temperatures_are_read_from_the_metadata() -> None:
    """As the 32 bits that llama.cpp holds."""
    found = read_temperatures(
        "lev", "tiny", {"tiny.decision.temperature.noul": "2.333000", "tiny.decision.type": "lev"}
    )

    assert {"noul": struct.unpack("f", struct.pack("f", 2.333))[0]} == found.by_name


@pytest.mark.parametrize("text", ["0.000000", "-1.000000", "warm", "inf", "nan", "1e99"])
def test_a_temperature_must_be_over_zero(text: str) -> None:
    """Anything else is refused with the key's name."""
    with pytest.raises(CannotRun, match=r"tiny\.decision\.temperature\.noul"):
        read_temperatures("lev", "tiny", {"tiny.decision.temperature.noul": text})
