"""A worker that runs for weeks: bounded bytes, flat memory, empty contexts, the same bits."""

import asyncio
import random

import psutil
import pytest

from tests.integration.evaluations import Lengths, make_evaluation
from tests.integration.pools import is_empty, open_pool
from tests.models import Tiny, TinyModels
from worker.decision.scores import Reading
from worker.engine.llama import Model
from worker.engine.pool import Pool
from worker.ports import Evaluation, Lane

PARKED_BYTES = 4 << 20
"""Room for a part of the states only, so that trunks are evicted and come back."""

AT_ONCE = 8
GROWTH_BYTES = 64 << 20
"""What allocators may keep; a leak of one trunk a ticket would be a hundred times that."""


@pytest.fixture
def model(tiny_models: TinyModels) -> Model:
    return tiny_models.load(Tiny())


async def run_tickets(
    pool: Pool, states: list[Evaluation], tickets: int, seed: int
) -> dict[int, tuple[Reading, ...]]:
    """Ask about random states, several at once; return what each state read."""
    draw = random.Random(seed)
    found: dict[int, tuple[Reading, ...]] = {}
    for _ in range(0, tickets, AT_ONCE):
        asked = [draw.randrange(len(states)) for _ in range(AT_ONCE)]
        lanes = [draw.choice([Lane.BATCH, Lane.BATCH, Lane.INTERACTIVE]) for _ in asked]
        replies = await asyncio.gather(
            *(pool.score(states[state], lane) for state, lane in zip(asked, lanes, strict=True))
        )
        for state, reply in zip(asked, replies, strict=True):
            assert found.setdefault(state, reply.readings) == reply.readings
        assert pool._trunks.bytes_used <= PARKED_BYTES
    assert is_empty(pool)
    return found


async def check_flat(model: Model, states: int, tickets: int) -> None:
    draw = random.Random(states)
    evaluations = [
        make_evaluation(model, Lengths(draw.randint(3, 700), (5, 70, 20), seed=state))
        for state in range(states)
    ]
    with open_pool(model, contexts=2, max_parked_bytes=PARKED_BYTES) as pool:
        first = await run_tickets(pool, evaluations, tickets // 4, seed=1)
        before = psutil.Process().memory_info().rss
        second = await run_tickets(pool, evaluations, tickets - tickets // 4, seed=2)
        grown = psutil.Process().memory_info().rss - before

    assert grown < GROWTH_BYTES
    assert all(second.get(state, readings) == readings for state, readings in first.items())


async def test_two_hundred_tickets_on_forty_states(model: Model) -> None:
    """Parked trunks come and go within their bound, memory stays flat, bits stay."""
    await check_flat(model, states=40, tickets=200)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_thousand_tickets_on_two_hundred_states(model: Model) -> None:
    """The same for as long as it takes to see a leak."""
    await check_flat(model, states=200, tickets=10_000)
