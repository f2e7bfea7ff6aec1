"""After a real failure of llama.cpp the ticket, and the next one, are answered as ever."""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from tests.integration.evaluations import Lengths, expected_readings, make_evaluation
from tests.integration.pools import contexts_of, is_empty, open_pool, until, until_busy
from tests.integration.test_fresh import difference, score_reading
from tests.integration.test_packed import PACKED_TOLERANCE
from tests.models import FLOAT_OPTIONS, Tiny, TinyModels
from tests.tiny_gguf import Kind
from worker import metrics
from worker.decision.scores import Reading
from worker.decision.text import Piece
from worker.engine.calls import Segment
from worker.engine.llama import Model
from worker.engine.options import Batching
from worker.engine.pool import Pool
from worker.engine.trunks import State
from worker.errors import DecodeFailed
from worker.ports import Branch, Evaluation, Lane, Reply

Answers = list[tuple[Evaluation, tuple[Reading, ...]]]

OPTIONS = {
    Batching.EXACT: replace(FLOAT_OPTIONS, context_tokens=2048),
    Batching.PACKED: replace(FLOAT_OPTIONS, context_tokens=2048, batch_tokens=2048, sequences=16),
}


@pytest.fixture(params=list(Batching), ids=str)
def batching(request: pytest.FixtureRequest) -> Batching:
    return request.param


@pytest.fixture(params=list(Kind), ids=lambda kind: kind.value)
def model(request: pytest.FixtureRequest, tiny_models: TinyModels) -> Model:
    return tiny_models.load(Tiny(request.param))


@pytest.fixture
def llama(tiny_models: TinyModels) -> Model:
    return tiny_models.load(Tiny())


def answers_of(model: Model, count: int = 3) -> Answers:
    """Make tickets, and what each of them reads on a context of its own."""
    tickets = [make_evaluation(model, Lengths(600, (60, 9, 3), seed)) for seed in range(count)]
    return [(one, expected_readings(model, OPTIONS[Batching.EXACT], one)) for one in tickets]


def refusals() -> float:
    return metrics.DECODE_FAILURES._value.get()


async def check_answers(pool: Pool, batching: Batching, expected: Answers) -> None:
    """Ask all tickets at once; see that each reads what it reads alone."""
    tickets = [ticket for ticket, _ in expected]
    replies = await asyncio.gather(*(pool.score(ticket, Lane.BATCH) for ticket in tickets))
    for (_, readings), reply in zip(expected, replies, strict=True):
        if batching is Batching.EXACT:
            assert readings == reply.readings
        for wanted, found in zip(readings, reply.readings, strict=True):
            moved = difference(score_reading(wanted), score_reading(found))
            assert moved <= PACKED_TOLERANCE
    assert is_empty(pool)


@contextmanager
def fewer_cells(pool: Pool, tokens: int) -> Iterator[None]:
    """Fill cells that nobody counts on, on a sequence that is not used meanwhile."""
    [context] = contexts_of(pool)
    foreign = context._sequences - 1
    for start in range(0, tokens, 500):
        context.decode_together([Segment([7] * 500, start, (foreign,), read=False)])
    yield
    if contexts_of(pool) == [context]:  # else it was rebuilt
        context.remove(foreign)


async def test_exhausted_cells(batching: Batching, llama: Model) -> None:
    """When llama.cpp has fewer cells than were counted on, no ticket fails."""
    expected = answers_of(llama)
    with open_pool(llama, options=OPTIONS[batching], batching=batching) as pool:
        with fewer_cells(pool, 1500):
            scoring = (pool.score(ticket, Lane.BATCH) for ticket, _ in expected)
            replies = await asyncio.gather(*scoring)
        assert [3, 3, 3] == [len(reply.readings) for reply in replies]
        await check_answers(pool, batching, expected)


def cut_short(state: State) -> None:
    del state[0][len(state[0]) // 2 :]


def spoil_the_header(state: State) -> None:
    state[0][:16] = b"\xff" * 16


@pytest.mark.parametrize("spoil", [cut_short, spoil_the_header])
async def test_a_corrupted_parked_trunk(
    batching: Batching, model: Model, spoil: Callable[[State], None]
) -> None:
    """A parked state that llama.cpp does not take is forgotten; its ticket is evaluated anew."""
    expected = answers_of(model, 1)
    before = refusals()
    with open_pool(
        model, options=OPTIONS[batching], batching=batching, max_parked_bytes=1 << 26
    ) as pool:
        await check_answers(pool, batching, expected)
        for _, state in pool._trunks.items():
            spoil(state)
        for _ in range(2):
            await check_answers(pool, batching, expected)
    assert before + 1 == refusals()


def poisoned(source: Path, target: Path, token: int) -> Path:
    """Copy a model so that prompts with *token* in them have no numbers for logits."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", "general.architecture")):
            element = field.types[-1] if field.types[0] is GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=element)
    for tensor in reader.tensors:
        data = np.array(tensor.data)
        if tensor.name == "token_embd.weight":
            writer.add_tensor("output.weight", data.copy())  # else all logits would have it
            data[token] = np.nan
        writer.add_tensor(tensor.name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def waits_or_is_done(pool: Pool, scoring: Sequence[asyncio.Task[Reply]]) -> Callable[[], bool]:
    return lambda: len(pool._schedule) == len(scoring) or any(task.done() for task in scoring)


async def test_a_ticket_that_fails_takes_no_neighbour_along(
    batching: Batching, tiny_models: TinyModels, tmp_path: Path
) -> None:
    """Good tickets in the same call, before and after a bad one, are answered."""
    llama = tiny_models.load()
    poison = (Piece(" Z", trusted=False),)
    path = poisoned(tiny_models.path(), tmp_path / "poisoned.gguf", llama.encode(poison)[-1])
    good = make_evaluation(llama, Lengths(60, (9, 3)))
    bad = replace(
        good, branches=tuple(Branch(b.prompt + poison, b.label_tokens) for b in good.branches)
    )
    with (
        Model.load(path, OPTIONS[batching]) as model,
        open_pool(model, options=OPTIONS[batching], batching=batching) as pool,
    ):
        filling = make_evaluation(model, Lengths(900, (1100,) * 9))
        for tickets in ([good, bad, good], [bad, good]):
            blocking = asyncio.create_task(pool.score(filling, Lane.BATCH))
            await until_busy(pool)
            scoring = [asyncio.create_task(pool.score(one, Lane.BATCH)) for one in tickets]
            # On a busy machine they may come before the cells are full, and are let in at once.
            await until(waits_or_is_done(pool, scoring))
            blocking.cancel()  # now all of them fit into one call
            answers = await asyncio.gather(*scoring, return_exceptions=True)
            failed = [isinstance(answer, DecodeFailed) for answer in answers]
            assert [ticket is bad for ticket in tickets] == failed
            assert [ticket is good for ticket in tickets] == [
                isinstance(answer, Reply) for answer in answers
            ]
        assert is_empty(pool)


async def test_what_fails_twice_is_the_tickets_failure(
    batching: Batching, tiny_models: TinyModels, tmp_path: Path
) -> None:
    """Tickets that llama.cpp cannot answer on a new context either fail; the pool works on."""
    path = Path(shutil.copy(tiny_models.path(), tmp_path / "no-numbers.gguf"))
    [norm] = (
        tensor for tensor in GGUFReader(path, "r+").tensors if tensor.name == "output_norm.weight"
    )
    norm.data[:] = np.nan
    norm.data.base.flush()
    before = refusals()
    with (
        Model.load(path, OPTIONS[batching]) as model,
        open_pool(model, options=OPTIONS[batching], batching=batching) as pool,
    ):
        ticket = make_evaluation(model, Lengths(60, (9, 3)))
        for _ in range(2):
            scoring = (pool.score(ticket, Lane.BATCH) for _ in range(3))
            for answer in await asyncio.gather(*scoring, return_exceptions=True):
                assert isinstance(answer, DecodeFailed)
        assert is_empty(pool)
    assert before < refusals()
