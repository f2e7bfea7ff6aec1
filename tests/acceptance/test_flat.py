"""A worker that runs all night does not grow."""

from pathlib import Path

import pytest

from tests.bench.memory import FILLED, measure


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_ten_thousand_tickets_take_no_more_memory_than_one_thousand(
    emulator_url: str, tiny_model: Path
) -> None:
    """Caches were full by then: what the process occupies at the end is at most 2 % more."""
    found = await measure(emulator_url, tiny_model, 10_000)

    assert found.evicted_trunks > 0
    assert {FILLED, 10_000} <= set(found.rss_bytes)
    assert found.growth <= 0.02
