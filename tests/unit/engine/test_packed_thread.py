"""A pool that packs, over a model that checks every call: who is answered, who is suspected."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.unit.engine.fake_llama import POISON, FakeModel, reading_of
from worker import metrics
from worker.decision.text import Piece, PromptText
from worker.engine.options import Batching, ModelOptions
from worker.engine.pool import Pool
from worker.errors import DecodeFailed
from worker.ports import Branch, Evaluation, Lane, Reply

LABELS = (1, 2)
OPTIONS = ModelOptions(context_tokens=1000, threads=1, batch_tokens=200, sequences=17)


def make_ticket(state: str, *questions: str) -> Evaluation:
    """Make a ticket; every character is a token."""

    def prompt(question: str) -> PromptText:
        return (Piece(f"{state}?{question}", trusted=False),)

    branches = tuple(Branch(prompt(question), LABELS) for question in questions)
    return Evaluation((prompt("a"), prompt("b")), branches)


def check_reply(ticket: Evaluation, reply: object) -> Reply:
    """See that every branch was read after its whole prompt."""
    assert isinstance(reply, Reply)
    texts = ["".join(piece.text for piece in branch.prompt) for branch in ticket.branches]
    expected = tuple(reading_of([*map(ord, text)], LABELS) for text in texts)
    assert expected == reply.readings
    return reply


@asynccontextmanager
async def open_pool(model: FakeModel, max_parked_bytes: int = 0) -> AsyncIterator[Pool]:
    pool = Pool(
        model,
        OPTIONS,
        contexts=1,
        batching=Batching.PACKED,
        max_waiting_tokens=100_000,
        max_parked_bytes=max_parked_bytes,
    )
    pool.start()
    try:
        yield pool
    finally:
        model.gate.set()
        await asyncio.to_thread(pool.close)
    assert 0 == model.contexts[-1].resident


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the context's thread sets no event of the loop
        await asyncio.sleep(0)


async def ask_together(
    pool: Pool, model: FakeModel, first: Evaluation, *others: Evaluation
) -> list[Reply | BaseException]:
    """Ask one ticket, the others while its first call is made; return what becomes of all."""
    model.gate.clear()
    model.begins.clear()
    tasks = [asyncio.create_task(pool.score(first, Lane.BATCH))]
    await until(model.begins.is_set)
    for number, ticket in enumerate(others, 1):
        tasks.append(asyncio.create_task(pool.score(ticket, Lane.BATCH)))
        await until(lambda number=number: len(pool._schedule) == number)
    model.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


def refusals() -> float:
    return metrics.DECODE_FAILURES._value.get()


async def test_what_was_read_before_a_refusal_is_answered() -> None:
    """A ticket whose last reading came in the call that failed for another is done."""
    model = FakeModel()
    filling, good = make_ticket("f" * 300, "fills"), make_ticket("good" * 10, "x", "y")
    bad = make_ticket("bad" * 10, chr(POISON))
    async with open_pool(model) as pool:
        filled, answered, failed = await ask_together(pool, model, filling, good, bad)

    check_reply(filling, filled)
    assert 40 + len("?x") + len("?y") == check_reply(good, answered).evaluated_tokens
    assert isinstance(failed, DecodeFailed)


async def test_what_was_not_read_before_a_refusal_is_read_alone() -> None:
    """A ticket that comes after the bad one in its call is evaluated again, without it."""
    model = FakeModel()
    filling, good = make_ticket("f" * 300, "fills"), make_ticket("good" * 10, "x", "y")
    bad = make_ticket("bad" * 10, chr(POISON))
    async with open_pool(model) as pool:
        filled, failed, answered = await ask_together(pool, model, filling, bad, good)

    check_reply(filling, filled)
    assert 2 * (40 + len("?x") + len("?y")) == check_reply(good, answered).evaluated_tokens
    assert isinstance(failed, DecodeFailed)


async def test_a_refused_parked_trunk_disturbs_no_neighbour() -> None:
    """Only the ticket whose parked trunk is not taken begins anew; the trunk is forgotten."""
    model = FakeModel()
    parked, neighbour = make_ticket("p" * 60, "one"), make_ticket("n" * 500, "two")
    async with open_pool(model, max_parked_bytes=1 << 20) as pool:
        check_reply(parked, await pool.score(parked, Lane.BATCH))
        before = refusals()
        model.refused_restores = 1
        beside, again = await ask_together(pool, model, neighbour, parked)
        third = check_reply(parked, await pool.score(parked, Lane.BATCH))

    assert 1 == len(model.contexts)
    assert before + 1 == refusals()
    assert 500 + len("?two") == check_reply(neighbour, beside).evaluated_tokens
    assert 60 + len("?one") == check_reply(parked, again).evaluated_tokens
    assert len("?one") == third.evaluated_tokens


async def answered_in_order(
    pool: Pool, model: FakeModel, document: Evaluation, callers: list[Evaluation]
) -> tuple[list[str], Reply]:
    """Ask about a document, and callers beside it; return who was answered when."""
    order: list[str] = []

    async def ask(name: str, ticket: Evaluation, lane: Lane) -> Reply:
        reply = check_reply(ticket, await pool.score(ticket, lane))
        order.append(name)
        return reply

    model.gate.clear()
    model.begins.clear()
    asking = [asyncio.create_task(ask("document", document, Lane.BATCH))]
    await until(model.begins.is_set)
    asking += [asyncio.create_task(ask("caller", one, Lane.INTERACTIVE)) for one in callers]
    await until(lambda: len(pool._schedule) == len(callers))
    model.gate.set()
    replies = await asyncio.gather(*asking)
    return order, replies[0]


async def test_a_caller_overtakes_a_document() -> None:
    """Callers who find no room beside a document are answered before it; it loses no token."""
    model = FakeModel()
    document = make_ticket("d" * 700, *("long" * 60 for _ in range(4)))
    callers = [make_ticket(f"caller {number} " * 9, "now") for number in range(3)]
    async with open_pool(model) as pool:
        order, reply = await answered_in_order(pool, model, document, callers)

    assert ["caller", "caller", "caller", "document"] == order
    assert 700 + 4 * (240 + 1) == reply.evaluated_tokens


@pytest.mark.parametrize("lengths", [(300, 150), (20, 1), (900, 50), (10, 700)])
async def test_callers_leave_room_for_the_queue(lengths: tuple[int, int]) -> None:
    """However many callers wait, a ticket of the queue is read among them, each token once."""
    model = FakeModel()
    state, question = lengths
    ticket = make_ticket("t" * state, "q" * question)
    callers = [make_ticket(f"{number:03} " * 60, "x") for number in range(100)]
    async with open_pool(model) as pool:
        order, reply = await answered_in_order(pool, model, ticket, callers)

    assert order.index("document") < 50
    assert state + 1 + question == reply.evaluated_tokens
