"""The same ticket has the same answer to the last bit, whatever happens around it."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.integration.evaluations import (
    Lengths,
    alone,
    expected_readings,
    in_hex,
    make_evaluation,
    read_alone,
)
from tests.integration.other_process import readings_of_another_process
from tests.integration.pools import is_empty, open_pool
from tests.models import ALL_KINDS, CHATML, Q8_0, QUANTISED_OPTIONS, Tiny, TinyModels
from tests.tiny_gguf import Kind
from worker.brain import open_wording
from worker.decision.outcome import (
    ModelProvenance,
    PromptProvenance,
    Provenance,
    RuntimeProvenance,
)
from worker.decision.scores import Reading
from worker.decision.ticket import Ticket, validate_ticket
from worker.engine.calls import Aborted
from worker.engine.llama import Context, Model
from worker.engine.plan import common_prefix
from worker.engine.pool import Pool
from worker.errors import DeadlinePassed
from worker.evaluator import Evaluator
from worker.local.sample_tickets import sample_desk
from worker.ports import Evaluation, Lane
from worker.settings import Settings

SHAPES = ((1, 1), (1, 2), (2, 1))
"""Contexts and threads of each."""

MIXED = (
    Lengths(30, (3, 1, 17)),
    Lengths(300, (2, 40, 1)),
    Lengths(516, (1, 8)),
    Lengths(1, (5, 1)),
    Lengths(2, (1, 30)),
    Lengths(3, (2, 4)),
)
"""Tickets on both sides of the smallest trunk and of the first chunk border."""

SAMPLE = (Lengths(60, (3, 1)), Lengths(300, (2,)), Lengths(515, (1,)), Lengths(2, (9,)))
"""The same for the sample model, which is a hundred times slower."""

BORDERS = (1, 2, 3, 255, 256, 257, 258, *range(511, 517), *range(1023, 1029))
CHUNKED = (*(Lengths(border, (1,)) for border in BORDERS), Lengths(40, BORDERS))
"""Trunks, and branches on one trunk, of lengths around every border there is."""

LONG = Lengths(4200, (1, 30))

ALIKE = (
    Lengths(1300, (3,)),
    Lengths(1030, (2, 5)),
    Lengths(514, (1,)),
    Lengths(515, (9,)),
    Lengths(1500, (1,)),
    Lengths(300, (2,)),
    Lengths(1300, (40,)),
)
"""Tickets whose states begin alike, so that a parked trunk of one serves another."""

ROOM = 64 << 20
"""Bytes for every trunk of these tests."""


@pytest.fixture(params=ALL_KINDS, ids=str)
def tiny(request: pytest.FixtureRequest) -> Tiny:
    return request.param


@pytest.fixture
def model(tiny: Tiny, tiny_models: TinyModels) -> Model:
    return tiny_models.load(tiny)


@pytest.fixture(params=[Tiny(kind, Q8_0) for kind in Kind], ids=str)
def quantised(request: pytest.FixtureRequest, tiny_models: TinyModels) -> Model:
    return tiny_models.load(request.param)


async def score(pool: Pool, evaluation: Evaluation, lane: Lane = Lane.BATCH) -> tuple[Reading, ...]:
    return (await pool.score(evaluation, lane)).readings


@cache
def reference(model: Model, lengths: Lengths) -> tuple[Reading, ...]:
    """Return what each branch of an evaluation must read."""
    return expected_readings(model, QUANTISED_OPTIONS, make_evaluation(model, lengths))


async def check_company_and_order(model: Model, lengths: Sequence[Lengths], seed: int) -> None:
    """Ask each branch alone, with the others, in another order, after other tickets."""
    evaluations = [make_evaluation(model, one) for one in lengths]
    expected = [reference(model, one) for one in lengths]
    with open_pool(model) as pool:
        for evaluation, readings in zip(evaluations, expected, strict=True):
            assert readings == await score(pool, evaluation)
            turned = replace(evaluation, branches=evaluation.branches[::-1])
            assert readings[::-1] == await score(pool, turned)
        singles = [
            (alone(evaluation, branch), reading)
            for evaluation, readings in zip(evaluations, expected, strict=True)
            for branch, reading in zip(evaluation.branches, readings, strict=True)
        ]
        random.Random(seed).shuffle(singles)
        for evaluation, reading in singles:
            assert (reading,) == await score(pool, evaluation)
        assert is_empty(pool)


async def check_shapes(
    model: Model,
    lengths: Sequence[Lengths],
    shapes: Sequence[tuple[int, int]] = SHAPES,
    max_parked_bytes: int = 0,
) -> None:
    """Ask everything at once, on every shape of pool."""
    evaluations = [make_evaluation(model, one) for one in lengths]
    expected = [reference(model, one) for one in lengths]
    for contexts, threads in shapes:
        with open_pool(
            model, contexts=contexts, threads=threads, max_parked_bytes=max_parked_bytes
        ) as pool:
            readings = await asyncio.gather(*(score(pool, one) for one in evaluations))
            assert is_empty(pool)
        for one, wanted, found in zip(lengths, expected, readings, strict=True):
            assert (one, contexts, threads, wanted) == (one, contexts, threads, found)


async def test_neighbours_do_not_move_a_bit(model: Model) -> None:
    """A question reads the same alone, with others, in another order, after other tickets."""
    await check_company_and_order(model, MIXED, seed=1)


async def test_contexts_and_threads_do_not_move_a_bit(model: Model) -> None:
    """Tickets that are evaluated at the same time read the same on every shape of pool."""
    await check_shapes(model, MIXED)


async def test_lengths_do_not_matter(quantised: Model) -> None:
    """Around every chunk border, threads and a neighbouring context leave the bits alone."""
    await check_shapes(quantised, CHUNKED, shapes=[(2, 1)])


async def test_long_states_keep_their_bits(quantised: Model) -> None:
    """A state of over 4,096 tokens reads the same on two threads and beside another ticket."""
    await check_shapes(quantised, [LONG, MIXED[1]], shapes=[(2, 1)])


async def test_parked_trunks_do_not_move_a_bit(quantised: Model) -> None:
    """From a parked trunk, or a parked beginning of it, a ticket reads what it reads afresh."""
    with open_pool(quantised, max_parked_bytes=ROOM) as pool:
        evaluated = []
        for lengths in (*ALIKE, *ALIKE[::-1]):
            reply = await pool.score(make_evaluation(quantised, lengths), Lane.BATCH)
            assert (lengths, reference(quantised, lengths)) == (lengths, reply.readings)
            evaluated.append(reply.evaluated_tokens)
        assert is_empty(pool)
    assert 1300 - 1 + 4 == evaluated[0]
    assert [1 + sum(lengths.branches) for lengths in (ALIKE[6], ALIKE[0])] == [
        evaluated[6],
        evaluated[-1],
    ]


async def test_parked_trunks_are_shared_by_contexts(quantised: Model) -> None:
    """Tickets that are evaluated at once may restore each other's trunks: the bits stay."""
    await check_shapes(quantised, ALIKE[2:], shapes=[(2, 1)], max_parked_bytes=ROOM)


async def test_evicted_trunks_do_not_move_a_bit(quantised: Model) -> None:
    """With room for hardly one trunk everything still reads the same."""
    await check_shapes(quantised, ALIKE[1:6], shapes=[(2, 1)], max_parked_bytes=800_000)


async def test_overtaken_tickets_keep_their_bits(quantised: Model) -> None:
    """A batch ticket that is set aside between calls, again and again, reads the same."""
    slow, quick = Lengths(1600, (520, 3)), MIXED[0]
    for max_parked_bytes in (0, ROOM):
        with open_pool(quantised, max_parked_bytes=max_parked_bytes) as pool:
            running = asyncio.create_task(score(pool, make_evaluation(quantised, slow)))
            whole = asyncio.create_task(score(pool, make_evaluation(quantised, MIXED[3])))
            evaluation = make_evaluation(quantised, quick)
            while not running.done():
                readings = await score(pool, evaluation, Lane.INTERACTIVE)
                assert reference(quantised, quick) == readings
            assert reference(quantised, slow) == await running
            assert reference(quantised, MIXED[3]) == await whole
            assert is_empty(pool)


def test_an_abort_leaves_no_trace(quantised: Model) -> None:
    """After a call was aborted anywhere, the context is empty and reads the same bits."""
    lengths = Lengths(600, (20,))
    evaluation = make_evaluation(quantised, lengths)
    [branch] = evaluation.branches
    first, second = map(quantised.encode, evaluation.probes)
    trunk, prompt = first[: common_prefix(first, second)], quantised.encode(branch.prompt)
    asked = limit = 0

    def abort() -> bool:
        nonlocal asked
        asked += 1
        return asked == limit

    with Context(quantised, QUANTISED_OPTIONS, abort) as context:
        expected = read_alone(context, trunk, prompt, branch)
        assert (expected,) == reference(quantised, lengths)
        asked_in_all = asked
        assert asked_in_all > 20
        for tenth in range(1, 11):
            asked, limit = 0, max(1, asked_in_all * tenth // 10)
            with pytest.raises(Aborted):
                read_alone(context, trunk, prompt, branch)
            assert context.is_empty()
            limit = 0
            assert expected == read_alone(context, trunk, prompt, branch)


async def test_cancellations_and_deadlines_leave_no_trace(quantised: Model) -> None:
    """A ticket that follows one that was cancelled or too late in a decode reads the same."""
    long = make_evaluation(quantised, Lengths(3000, (5000,) * 6))
    short = make_evaluation(quantised, MIXED[1])
    expected = reference(quantised, MIXED[1])
    with open_pool(quantised) as pool:
        for seconds in (0.01, 0.02, 0.05, 0.1):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pool.score(long, Lane.BATCH), seconds)
            assert expected == await score(pool, short)
            deadline = asyncio.get_running_loop().time() + seconds
            with pytest.raises(DeadlinePassed):
                await pool.score(long, Lane.BATCH, deadline)
            assert expected == await score(pool, short)
        assert is_empty(pool)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_new_process_reads_the_same(kind: Kind, tiny_models: TinyModels) -> None:
    """After a restart every bit is the same."""
    tiny = Tiny(kind, Q8_0)
    model = tiny_models.load(tiny)
    lines = [line for one in MIXED for line in in_hex(reference(model, one))]
    assert lines == readings_of_another_process(tiny_models.path(tiny), MIXED)


# --- the sample model -----------------------------------------------------------------------------


@pytest.mark.timeout(600)  # half a minute on a quiet machine
async def test_sample_model_on_every_shape(sample_model: Model) -> None:
    """On real quantised weights twenty tickets read the same bits on every shape of pool."""
    twenty = (*SAMPLE, *many(20 - len(SAMPLE), 40, seed=5))
    await check_shapes(sample_model, twenty, shapes=SHAPES[1:])  # what is expected is 1 × 1


async def test_sample_model_in_company(sample_model: Model) -> None:
    """On real quantised weights company, order and history do not move a bit."""
    await check_company_and_order(sample_model, [SAMPLE[0], SAMPLE[3]], seed=2)


@pytest.mark.slow
async def test_sample_model_from_a_parked_trunk(sample_model: Model) -> None:
    """On real quantised weights a parked trunk, and a beginning of one, give the same bits."""
    # Longer than the window of 512, and branches on both sides of 64 tokens, where llama.cpp's
    # attention kernel changes.
    lengths = [Lengths(600, (3,)), Lengths(600, (100,))]
    await check_shapes(sample_model, lengths, shapes=[(1, 1)], max_parked_bytes=ROOM)


def test_sample_model_in_a_new_process(sample_model: Model, sample_model_file: Path) -> None:
    """On real quantised weights a restart does not move a bit."""
    lines = in_hex(reference(sample_model, SAMPLE[0]))
    assert lines == readings_of_another_process(sample_model_file, SAMPLE[:1])


# --- whole tickets --------------------------------------------------------------------------------


def make_evaluator(model: Model, pool: Pool) -> Evaluator:
    """Wire a model and a pool as the worker does."""
    wording = open_wording(model, Settings())
    provenance = Provenance(
        model=ModelProvenance(
            name="model",
            file="model.gguf",
            sha256="0" * 64,
            architecture=model.architecture,
            quantization=model.quantization,
            size_bytes=model.size_bytes,
        ),
        runtime=RuntimeProvenance(
            worker="0",
            llama_cpp_python="0",
            llama_cpp="0",
            system_info="",
            backend="cpu",
            gpu_layers=0,
            batching="exact",
        ),
        hardware="",
        prompt=PromptProvenance(name=wording.name, version=wording.version, sha256=wording.sha256),
    )
    return Evaluator(pool, wording, provenance)


def sample_tickets(count: int) -> list[Ticket]:
    """Return the demo's shortest tickets."""
    bodies = sorted(sample_desk().tickets, key=lambda body: len(str(body["state"])))
    return [validate_ticket(body) for body in bodies[:count]]


def some_questions(ticket: Ticket, keys: Sequence[str]) -> Ticket:
    assert ticket.questions is not None
    return ticket.model_copy(update={"questions": {key: ticket.questions[key] for key in keys}})


async def check_tickets(model: Model, tickets: Sequence[Ticket]) -> None:
    """Ask whole tickets at once, backwards, and each question alone."""
    with open_pool(model, contexts=2) as pool:
        evaluator = make_evaluator(model, pool)
        together = await asyncio.gather(*(evaluator.evaluate(one, Lane.BATCH) for one in tickets))
    with open_pool(model, threads=2) as pool:
        evaluator = make_evaluator(model, pool)
        for ticket, outcome in reversed(list(zip(tickets, together, strict=True))):
            assert outcome.answers is not None
            keys = list(outcome.answers)
            backwards = await evaluator.evaluate(some_questions(ticket, keys[::-1]), Lane.BATCH)
            assert outcome.answers == backwards.answers
            for key in keys:
                single = await evaluator.evaluate(some_questions(ticket, [key]), Lane.INTERACTIVE)
                assert {key: outcome.answers[key]} == single.answers
        assert is_empty(pool)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("chat_template", [None, CHATML], ids=["plain", "chat"])
async def test_tickets_answer_the_same(
    kind: Kind, chat_template: str | None, tiny_models: TinyModels
) -> None:
    """A ticket's answers are equal whatever else is asked, with and without a chat template."""
    model = tiny_models.load(Tiny(kind, Q8_0, chat_template=chat_template))
    await check_tickets(model, sample_tickets(2))


async def test_sample_model_answers_the_same(sample_model: Model) -> None:
    """On real quantised weights a ticket's answers do not depend on what else is asked."""
    await check_tickets(sample_model, sample_tickets(1))


# --- full counts ----------------------------------------------------------------------------------


def many(count: int, most: int, seed: int) -> list[Lengths]:
    """Draw tickets of up to *most* tokens."""
    draw = random.Random(seed)
    return [
        Lengths(
            draw.choice([draw.randint(1, 40), draw.randint(2, most)]),
            tuple(
                draw.choice([1, 2, 3, 4, draw.randint(5, 60)]) for _ in range(draw.randint(1, 5))
            ),
            seed=number // 2,
        )
        for number in range(count)
    ]


def batches(lengths: Sequence[Lengths], size: int) -> Iterator[Sequence[Lengths]]:
    return (lengths[start : start + size] for start in range(0, len(lengths), size))


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_five_hundred_tickets(model: Model) -> None:
    """Five hundred tickets of a tiny model read the same on every shape, in every company."""
    for number, batch in enumerate(batches(many(500, 400, seed=3), 50)):
        await check_shapes(model, batch, max_parked_bytes=ROOM if number % 2 else 0)
        await check_company_and_order(model, batch, number)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_all_lengths_on_all_shapes(model: Model) -> None:
    """Around every chunk border, and over 4,096 tokens, every shape reads the same."""
    await check_shapes(model, [*CHUNKED, LONG])
    await check_shapes(model, [*CHUNKED, LONG], max_parked_bytes=ROOM)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_hundred_tickets_of_the_sample_model(sample_model: Model) -> None:
    """A hundred tickets of the sample model read the same on every shape, in every company."""
    for number, batch in enumerate(batches(many(100, 300, seed=4), 20)):
        await check_shapes(sample_model, batch, max_parked_bytes=ROOM if number % 2 else 0)
        await check_company_and_order(sample_model, batch, number)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_all_lengths_of_the_sample_model(sample_model: Model) -> None:
    """On real quantised weights, too, lengths around every border keep their bits."""
    await check_shapes(sample_model, [*CHUNKED, LONG])
    await check_shapes(sample_model, [*CHUNKED, LONG], max_parked_bytes=ROOM)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_the_demo_of_the_sample_model(sample_model: Model) -> None:
    """All tickets of the demo have the same answers, whatever else is asked."""
    await check_tickets(sample_model, sample_tickets(24))
