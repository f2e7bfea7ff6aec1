"""Packed evaluation: tickets that share calls are read as if each had been alone."""

import asyncio
from dataclasses import replace

import pytest

from tests.integration.evaluations import Lengths, make_evaluation
from tests.integration.pools import is_empty, open_pool, until, until_busy, until_waiting
from tests.integration.test_fresh import difference, plain_reading, score_reading
from tests.models import FLOAT_KINDS, FLOAT_OPTIONS, Tiny, TinyModels
from worker.decision.scores import Scores
from worker.engine.llama import Model
from worker.engine.options import Batching
from worker.errors import DeadlinePassed, EngineFailed
from worker.ports import Evaluation, Lane, Reply

PACKED_TOLERANCE = 5e-4
"""The most that a probability may differ from a fresh evaluation."""

ROOM = 64 * 2**20
PACKED = Batching.PACKED

MIXED = (
    Lengths(30, (1, 2, 33, 64), seed=1),
    Lengths(513, (1, 40), seed=2),
    Lengths(2, (1, 3), seed=3),  # too short a trunk: its branches are evaluated whole
    Lengths(700, (30, 5, 7, 9, 11, 3), seed=4),
    Lengths(1100, (30, 600), seed=5),
)
"""Across the window of 32 tokens, ubatches, calls of 512, and more branches than sequences."""

FEW = replace(FLOAT_OPTIONS, sequences=5)
MANY = replace(FLOAT_OPTIONS, sequences=64, batch_tokens=2048, ubatch_tokens=256)


@pytest.fixture(params=FLOAT_KINDS, ids=str)
def model(request: pytest.FixtureRequest, tiny_models: TinyModels) -> Model:
    return tiny_models.load(request.param)


@pytest.fixture
def llama(tiny_models: TinyModels) -> Model:
    return tiny_models.load(Tiny())


def fresh(model: Model, evaluation: Evaluation) -> list[Scores]:
    return [score_reading(plain_reading(model, branch)) for branch in evaluation.branches]


def check_like(expected: list[Scores], reply: Reply) -> None:
    for wanted, reading in zip(expected, reply.readings, strict=True):
        assert difference(wanted, score_reading(reading)) <= PACKED_TOLERANCE


async def test_packed_equals_fresh(model: Model) -> None:
    """Whatever shares its calls, sequences and cells, a ticket reads what it would afresh."""
    evaluations = [make_evaluation(model, lengths) for lengths in MIXED]
    expected = [fresh(model, evaluation) for evaluation in evaluations]
    for options in (FEW, MANY):
        with open_pool(model, options=options, batching=PACKED, max_parked_bytes=ROOM) as pool:
            for again in (False, True):
                scoring = (pool.score(evaluation, Lane.BATCH) for evaluation in evaluations)
                replies = await asyncio.gather(*scoring)
                for wanted, reply, lengths in zip(expected, replies, MIXED, strict=True):
                    check_like(wanted, reply)
                    own = sum(lengths.branches) + len(lengths.branches)
                    if lengths.trunk > 2:  # the trunk's last token goes with each branch
                        trunk = 0 if again else lengths.trunk - 1
                        assert trunk + own == reply.evaluated_tokens
            assert is_empty(pool)


async def test_a_part_of_a_parked_trunk(model: Model) -> None:
    """A longer state goes on from the parked trunk of a shorter one, where memories allow it."""
    short, longer = (make_evaluation(model, Lengths(n, (20, 9))) for n in (600, 1200))
    with open_pool(model, options=MANY, batching=PACKED, max_parked_bytes=ROOM) as pool:
        await pool.score(short, Lane.BATCH)
        reply = await pool.score(longer, Lane.BATCH)
        check_like(fresh(model, longer), reply)
        assert is_empty(pool)
    reused = 512 if model.is_divisible else 0
    assert 1199 - reused + 21 + 10 == reply.evaluated_tokens


async def test_sixty_four_questions_with_three_sequences(llama: Model) -> None:
    """More branches than sequences go one after the other over the same trunk."""
    evaluation = make_evaluation(llama, Lengths(40, tuple(range(1, 65))))
    options = replace(FLOAT_OPTIONS, sequences=3)
    with open_pool(llama, options=options, batching=PACKED) as pool:
        check_like(fresh(llama, evaluation), await pool.score(evaluation, Lane.BATCH))
        assert is_empty(pool)


async def test_tickets_share_calls(llama: Model) -> None:
    """Tickets that wait together are evaluated side by side on one context."""
    tickets = [make_evaluation(llama, Lengths(100, (20, 20), seed=n)) for n in range(8)]
    hours = make_evaluation(llama, Lengths(3000, (5000,) * 6))
    with open_pool(llama, options=MANY, batching=PACKED) as pool:
        blocking = asyncio.create_task(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        # The first one fills all cells, so that the others wait for it together.
        waiting = [asyncio.create_task(pool.score(ticket, Lane.BATCH)) for ticket in tickets]
        await until_waiting(pool, len(tickets))
        blocking.cancel()
        await until_busy(pool, len(tickets))
        await asyncio.gather(*waiting)
        assert is_empty(pool)


async def test_a_caller_overtakes_what_fills_the_context(llama: Model) -> None:
    """Batch work is set aside for a caller there is no room for, and read all the same."""
    document = make_evaluation(llama, Lengths(900, (1100, 1100, 5)))
    short = make_evaluation(llama, Lengths(100, (20, 20)))
    expected = fresh(llama, short)
    options = replace(MANY, context_tokens=2048, batch_tokens=256)
    with open_pool(llama, options=options, batching=PACKED) as pool:
        running = asyncio.create_task(pool.score(document, Lane.BATCH))
        await until(lambda: 256 <= pool.resident_tokens() <= 2048)
        for _ in range(3):
            check_like(expected, await pool.score(short, Lane.INTERACTIVE))
            assert not running.done()
        check_like(fresh(llama, document), await running)
        await until(lambda: pool.resident_tokens() == 0)
        assert is_empty(pool)


async def test_one_who_leaves_does_not_disturb_the_others(model: Model) -> None:
    """A cancelled ticket and one whose time is up leave shared calls; the rest is read."""
    staying = make_evaluation(model, Lengths(700, (30, 40), seed=1))
    leaving = make_evaluation(model, Lengths(900, (300,) * 3, seed=2))
    options = replace(MANY, batch_tokens=512)
    with open_pool(model, options=options, batching=PACKED) as pool:
        deadline = asyncio.get_running_loop().time() + 0.01
        tasks = [
            asyncio.create_task(pool.score(leaving, Lane.BATCH)),
            asyncio.create_task(pool.score(staying, Lane.BATCH)),
            asyncio.create_task(pool.score(leaving, Lane.BATCH, deadline)),
        ]
        await until(lambda: len(pool._schedule.running) >= 2)
        tasks[0].cancel()
        with pytest.raises(DeadlinePassed):
            await tasks[2]
        check_like(fresh(model, staying), await tasks[1])
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        check_like(fresh(model, staying), await pool.score(staying, Lane.BATCH))
        assert is_empty(pool)


async def test_closing_ends_what_is_packed(llama: Model) -> None:
    """Everything in the context is answered when the pool closes."""
    hours = make_evaluation(llama, Lengths(3000, (4000,) * 6))
    with open_pool(llama, options=MANY, batching=PACKED) as pool:
        running = asyncio.create_task(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
    with pytest.raises(EngineFailed, match="closed"):
        await running
