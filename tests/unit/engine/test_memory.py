"""How much memory there is, in numbers and in words."""

import psutil
import pytest

from worker.engine.memory import available_bytes, in_words


def test_there_is_memory() -> None:
    """What is available is something, and not more than the machine has."""
    assert 0 < available_bytes() <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536 * 1024, "2 MiB"),
        (2**30, "1.0 GiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (5000 * 2**30, "5000.0 GiB"),
    ],
)
def test_bytes_are_told_in_words(count: float, expected: str) -> None:
    """Messages for people say GiB, not eleven digits."""
    assert expected == in_words(count)
