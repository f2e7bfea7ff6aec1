"""The pool: who goes first, who is turned away, and what a caller who leaves leaves behind."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as native
import pytest
from prometheus_client import REGISTRY

from tests.integration.evaluations import Lengths, expected_readings, make_evaluation
from tests.integration.pools import (
    contexts_of,
    is_empty,
    open_pool,
    until,
    until_busy,
    until_waiting,
)
from tests.integration.processes import in_a_child
from tests.models import QUANTISED_OPTIONS, Tiny, TinyModels
from tests.tiny_gguf import Kind, write_tiny_gguf
from worker import metrics
from worker.decision.scores import Reading
from worker.decision.text import Piece
from worker.engine.llama import Model
from worker.engine.plan import CHUNK_TOKENS
from worker.engine.pool import Pool
from worker.errors import Backlogged, DeadlinePassed, EngineBusy, EngineFailed, Rejected
from worker.ports import Branch, Evaluation, Lane, Reply

SHORT = Lengths(40, (3, 9))
HOURS = Lengths(3000, (5000,) * 6)
"""More work than any test waits for: it is always given up."""

SECONDS = Lengths(3000, (600, 600))


@pytest.fixture
def model(tiny_models: TinyModels) -> Model:
    return tiny_models.load(Tiny())


@pytest.fixture
def short(model: Model) -> Evaluation:
    return make_evaluation(model, SHORT)


@pytest.fixture
def hours(model: Model) -> Evaluation:
    return make_evaluation(model, HOURS)


@pytest.fixture
def expected(model: Model, short: Evaluation) -> tuple[Reading, ...]:
    return expected_readings(model, QUANTISED_OPTIONS, short)


def started(work: Coroutine[Any, Any, Reply]) -> "asyncio.Task[Reply]":
    return asyncio.create_task(work)


async def given_up(*tasks: "asyncio.Task[Reply]") -> None:
    """Cancel tasks and see that they end cancelled."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with pytest.raises(asyncio.CancelledError):
            await task


def now() -> float:
    return asyncio.get_running_loop().time()


def counted() -> Counter[str]:
    """Return every sample of our metrics, by name and labels; a difference leaves what grew."""
    return Counter(
        {
            " ".join((sample.name, *sample.labels.values())): sample.value
            for family in REGISTRY.collect()
            for sample in family.samples
            if sample.name.startswith("decision_")
        }
    )


# --- counts ---------------------------------------------------------------------------------------


async def test_a_reply_counts_its_tokens(model: Model, short: Evaluation) -> None:
    """A reply says how many tokens its prompts have, how many were decoded, how long it took."""
    before = counted()
    with open_pool(model, max_parked_bytes=1 << 20) as pool:
        reply = await pool.score(short, Lane.BATCH)
        assert 0 == pool.resident_tokens()
        first = counted() - before
        again = await pool.score(short, Lane.BATCH)
        second = counted() - before - first
    assert (43 + 49, 43 + 49 - 39) == (reply.input_tokens, reply.evaluated_tokens)
    assert reply.waiting_seconds >= 0
    assert reply.evaluation_seconds > 0
    assert (39, reply.evaluated_tokens - 39) == tuple(
        first[f"decision_evaluated_tokens_total {kind}"] for kind in ("trunk", "branch")
    )
    assert (39, 0) == tuple(
        first[f"decision_reused_trunk_tokens_total {kind}"] for kind in ("shared", "parked")
    )
    assert (0, again.evaluated_tokens) == tuple(
        second[f"decision_evaluated_tokens_total {kind}"] for kind in ("trunk", "branch")
    )
    assert 39 == second["decision_reused_trunk_tokens_total parked"]
    assert 1 == first["decision_engine_admissions_total batch"]


async def test_calls_are_timed_and_their_fill_is_told(model: Model, short: Evaluation) -> None:
    """A trunk and two branches: three calls, each with its share of the 512 tokens that fit."""
    before = counted()
    with open_pool(model) as pool:
        reply = await pool.score(short, Lane.BATCH)
    grown = counted() - before

    assert 3 == grown["decision_decode_seconds_count"]
    assert 3 == grown["decision_batch_fill_ratio_count"]
    fill = reply.evaluated_tokens / CHUNK_TOKENS
    assert fill == pytest.approx(grown["decision_batch_fill_ratio_sum"])


async def test_contexts_tell_what_they_hold(model: Model, hours: Evaluation) -> None:
    """While a long trunk is decoded, its chunks; nothing once it is given up."""
    with open_pool(model) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until(lambda: pool.resident_tokens() >= 2 * CHUNK_TOKENS)
        held = pool.resident_tokens()
        await given_up(running)
        await until_busy(pool, 0)
        await until(lambda: pool.resident_tokens() == 0)

    assert 0 == held % CHUNK_TOKENS


# --- lanes ----------------------------------------------------------------------------------------


async def test_the_interactive_lane_goes_first(
    model: Model, short: Evaluation, hours: Evaluation
) -> None:
    """A caller who waits overtakes batch work that waited before; each lane keeps its order."""
    order: list[str] = []

    async def ask(name: str, lane: Lane) -> None:
        await pool.score(short, lane)
        order.append(name)

    with open_pool(model) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        names = [("b1", Lane.BATCH), ("b2", Lane.BATCH), ("i1", Lane.INTERACTIVE),
                 ("b3", Lane.BATCH), ("i2", Lane.INTERACTIVE)]  # fmt: skip
        asking = []
        for count, (name, lane) in enumerate(names, start=1):
            asking.append(asyncio.create_task(ask(name, lane)))
            await until_waiting(pool, count)
        await given_up(running)
        await asyncio.gather(*asking)
    assert ["i1", "i2", "b1", "b2", "b3"] == order


async def test_the_batch_lane_keeps_a_share(
    model: Model, short: Evaluation, hours: Evaluation
) -> None:
    """While callers keep coming, batch work still gets turns and is done before the last."""
    order: list[Lane] = []

    async def ask(lane: Lane) -> None:
        await pool.score(short, lane)
        order.append(lane)

    with open_pool(model) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        lanes = [Lane.BATCH] * 2 + [Lane.INTERACTIVE] * 30
        asking = [asyncio.create_task(ask(lane)) for lane in lanes]
        await until_waiting(pool, len(lanes))
        await given_up(running)
        await asyncio.gather(*asking)
    assert Lane.INTERACTIVE is order[-1]
    assert [Lane.INTERACTIVE] * 3 == order[:3]


async def test_a_caller_overtakes_a_document(
    model: Model, short: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """A caller need not wait for a long batch ticket on the only context, whose bits stay."""
    document = make_evaluation(model, SECONDS)
    wanted = expected_readings(model, QUANTISED_OPTIONS, document)
    with open_pool(model) as pool:
        running = started(pool.score(document, Lane.BATCH))
        await until_busy(pool)
        for _ in range(5):
            assert expected == (await pool.score(short, Lane.INTERACTIVE)).readings
            assert not running.done()
        reply = await running
        assert is_empty(pool)
    assert wanted == reply.readings
    assert 3000 - 1 + 2 * 601 == reply.evaluated_tokens


async def test_a_caller_waits_for_one_chunk_at_most(
    model: Model, short: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """With a 4,000-token trunk on every context, a caller goes on at the next chunk's end."""
    document = make_evaluation(model, Lengths(4000, (3,)))
    wanted = expected_readings(model, QUANTISED_OPTIONS, document)
    with open_pool(model, contexts=2) as pool:
        running = [started(pool.score(document, Lane.BATCH)) for _ in range(2)]
        await until_busy(pool, 2)
        works = list(pool._schedule.running)
        before = [work.progress.evaluated_tokens for work in works]
        assert expected == (await pool.score(short, Lane.INTERACTIVE)).readings
        since = [
            work.progress.evaluated_tokens - tokens
            for work, tokens in zip(works, before, strict=True)
        ]
        assert min(since) <= CHUNK_TOKENS
        assert not any(task.done() for task in running)
        assert [wanted, wanted] == [(await task).readings for task in running]
        assert is_empty(pool)


# --- the door -------------------------------------------------------------------------------------


async def test_a_full_door_says_so(model: Model, short: Evaluation, hours: Evaluation) -> None:
    """Work beyond the bound is refused at once, with the numbers; what waits is answered."""
    tokens = 43 + 49 - 39
    with open_pool(model, max_waiting_tokens=2 * tokens + 1) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        waiting = [started(pool.score(short, Lane.BATCH)) for _ in range(2)]
        await until_waiting(pool, 2)
        assert 2 * tokens == metrics.ENGINE_WAITING_TOKENS._value.get()
        before = counted()
        with pytest.raises(EngineBusy) as caught:
            await pool.score(short, Lane.INTERACTIVE)
        assert 1 == (counted() - before)["decision_engine_refusals_total interactive busy"]
        assert (2 * tokens, 2 * tokens + 1) == (
            caught.value.waiting_tokens,
            caught.value.limit_tokens,
        )
        await given_up(running)
        first, second = await asyncio.gather(*waiting)
        assert first.readings == second.readings
        assert first.readings == (await pool.score(short, Lane.BATCH)).readings


async def test_an_answer_that_would_come_too_late_is_refused(
    model: Model, short: Evaluation, hours: Evaluation
) -> None:
    """Behind hours of callers' work the deadline cannot be met: said at once, read or not."""
    with open_pool(model) as pool:
        await pool.score(short, Lane.BATCH)  # measured now
        await until_busy(pool, 0)
        running = started(pool.score(hours, Lane.INTERACTIVE))
        await until_busy(pool)
        soon, before = now() + 1e-3, counted()
        with pytest.raises(Backlogged) as unread:
            pool.check_room(Lane.INTERACTIVE, soon)
        with pytest.raises(Backlogged):
            await pool.score(short, Lane.INTERACTIVE, soon)
        assert 2 == (counted() - before)["decision_engine_refusals_total interactive late"]
        assert unread.value.seconds >= 1
        pool.check_room(Lane.INTERACTIVE)
        await given_up(running)
        await until_busy(pool, 0)
        pool.check_room(Lane.INTERACTIVE, soon)  # nothing goes before: only trying can tell


async def test_callers_need_not_wait_for_a_document(
    model: Model, short: Evaluation, hours: Evaluation
) -> None:
    """Batch work counts for a caller with one chunk, since it is set aside."""
    with open_pool(model) as pool:
        await pool.score(short, Lane.BATCH)
        await until_busy(pool, 0)
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        pool.check_room(Lane.INTERACTIVE, now() + 60)
        with pytest.raises(Backlogged):
            pool.check_room(Lane.BATCH, now() + 1e-3)
        await given_up(running)


async def test_large_work_finds_an_empty_door_open(model: Model, short: Evaluation) -> None:
    """Work larger than the bound is let in while nothing waits: else it could never be done."""
    with open_pool(model, max_waiting_tokens=1) as pool:
        assert 92 == (await pool.score(short, Lane.BATCH)).input_tokens


async def test_windows_are_let_in_together_or_not_at_all(
    model: Model, short: Evaluation, hours: Evaluation
) -> None:
    """The door counts all windows of a ticket; they are answered in their order."""
    tokens = 43 + 49 - 39
    other = make_evaluation(model, Lengths(40, (3, 9), seed=2))
    with open_pool(model, max_waiting_tokens=3 * tokens) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        waiting = started(pool.score(short, Lane.BATCH))
        await until_waiting(pool, 1)
        with pytest.raises(EngineBusy):
            await pool.score_all([short, other, short], Lane.BATCH)
        assert tokens == pool.waiting_tokens
        windows = asyncio.create_task(pool.score_all([other, short], Lane.BATCH))
        await until_waiting(pool, 3)
        await given_up(running)
        first, second = await windows
        assert (await waiting).readings == second.readings
        assert expected_readings(model, QUANTISED_OPTIONS, other) == first.readings
        assert is_empty(pool)


async def test_windows_are_given_up_together(
    model: Model, hours: Evaluation, short: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """When the caller leaves: what runs and what waits; the next ticket is served."""
    with open_pool(model) as pool:
        windows = asyncio.create_task(pool.score_all([hours, short, hours], Lane.BATCH))
        await until_busy(pool)
        windows.cancel()
        with pytest.raises(asyncio.CancelledError):
            await windows
        await until_waiting(pool, 0)
        assert expected == (await pool.score(short, Lane.BATCH)).readings
        assert is_empty(pool)


async def test_the_gauge_forgets_who_left(
    model: Model, short: Evaluation, hours: Evaluation
) -> None:
    """A cancelled ticket no longer counts as waiting."""
    with open_pool(model) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        waiting = started(pool.score(short, Lane.BATCH))
        await until_waiting(pool, 1)
        await given_up(waiting)
        await until_waiting(pool, 0)
        assert 0 == metrics.ENGINE_WAITING_TOKENS._value.get()
        await given_up(running)


@pytest.mark.parametrize("trunk", [8188, 8192, 20_000])
async def test_a_prompt_that_does_not_fit(model: Model, trunk: int) -> None:
    """A prompt longer than the context is rejected with both counts, never cut."""
    evaluation = make_evaluation(model, Lengths(trunk, (1, 5)))
    before = counted()
    with open_pool(model) as pool:
        with pytest.raises(Rejected) as caught:
            await pool.score(evaluation, Lane.BATCH)
        assert 1 == (counted() - before)["decision_engine_refusals_total batch long"]
        where = "state" if trunk >= 8192 else "questions"  # which of them is too long
        assert ("prompt_too_long", where) == (caught.value.code, caught.value.where)
        expected = f"the longest prompt has {trunk + 5} tokens, the context holds 8192"
        assert expected == caught.value.message
        assert is_empty(pool)


async def test_a_prompt_that_is_longer_than_it_may_be(model: Model, short: Evaluation) -> None:
    """Who asks may allow less than the context holds, and never more."""
    longest = max(len(model.encode(branch.prompt)) for branch in short.branches)
    with open_pool(model) as pool:
        reply = await pool.score(replace(short, max_prompt_tokens=longest), Lane.BATCH)
        with pytest.raises(Rejected, match=f"has {longest} tokens, in this request it may have"):
            await pool.score(replace(short, max_prompt_tokens=longest - 1), Lane.BATCH)
        too_long = make_evaluation(model, Lengths(8192, (1, 5)))
        with pytest.raises(Rejected, match="the context holds 8192"):
            await pool.score(replace(too_long, max_prompt_tokens=1 << 20), Lane.BATCH)

    assert [len(model.encode(branch.prompt)) for branch in short.branches] == list(
        reply.prompt_tokens
    )
    assert 0 < reply.trunk_tokens < longest


@pytest.mark.parametrize("context_tokens", [256, 300, 1024])
async def test_a_prompt_that_just_fits(model: Model, context_tokens: int) -> None:
    """A prompt of exactly the context's size is answered."""
    options = replace(QUANTISED_OPTIONS, context_tokens=context_tokens)
    evaluation = make_evaluation(model, Lengths(context_tokens - 5, (5, 1, 5)))
    with open_pool(model, options=options) as pool:
        reply = await pool.score(evaluation, Lane.BATCH)
        assert is_empty(pool)
    assert expected_readings(model, options, evaluation) == reply.readings


# --- deadlines and cancellation -------------------------------------------------------------------


async def test_a_deadline_ends_a_running_evaluation(
    model: Model, hours: Evaluation, short: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """A deadline that passes inside a call ends it there; the context serves the next ticket."""
    with open_pool(model) as pool:
        for seconds in (0.05, 0.2):
            deadline = now() + seconds
            with pytest.raises(DeadlinePassed):
                await pool.score(hours, Lane.BATCH, deadline)
            assert 0 <= now() - deadline < 0.5
            assert expected == (await pool.score(short, Lane.BATCH)).readings
        assert is_empty(pool)


async def test_a_deadline_that_has_passed(model: Model, short: Evaluation) -> None:
    """Work that comes too late is not evaluated."""
    before = counted()
    with open_pool(model) as pool:
        with pytest.raises(DeadlinePassed):
            await pool.score(short, Lane.BATCH, now() - 1)
        assert is_empty(pool)
    grown = [name for name in counted() - before if name.startswith("decision_evaluated_tokens")]
    assert [] == grown


async def test_a_deadline_ends_waiting(model: Model, short: Evaluation, hours: Evaluation) -> None:
    """A deadline that passes while the work waits is told then, not when a context is free."""
    with open_pool(model) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        waiting = started(pool.score(short, Lane.BATCH, now() + 0.05))
        done, _ = await asyncio.wait([waiting], timeout=1)
        await given_up(running)
        with pytest.raises(DeadlinePassed):
            await waiting
        assert {waiting} == done


async def test_cancelling_frees_the_context(
    model: Model, hours: Evaluation, short: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """A cancelled ticket stops decoding at once; the next one has the context and its bits."""
    with open_pool(model) as pool:
        for _ in range(3):
            running = started(pool.score(hours, Lane.BATCH))
            await until_busy(pool)
            cancelled_at = now()
            await given_up(running)
            assert expected == (await pool.score(short, Lane.BATCH)).readings
            assert now() - cancelled_at < 1
        assert is_empty(pool)


async def test_cancelling_what_waits(
    model: Model, hours: Evaluation, short: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """A ticket that is cancelled while it waits leaves its place to others and is not evaluated."""
    with open_pool(model) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        first, second, third = (started(pool.score(short, Lane.BATCH)) for _ in range(3))
        await until_waiting(pool, 3)
        await given_up(first, third)
        await until_waiting(pool, 1)
        await given_up(running)
        assert expected == (await second).readings
        await until_busy(pool, 0)
        assert is_empty(pool)


# --- closing --------------------------------------------------------------------------------------


async def test_closing_ends_what_runs_and_what_waits(
    model: Model, hours: Evaluation, short: Evaluation
) -> None:
    """close() returns promptly while work is running, and answers all of it."""
    with open_pool(model, contexts=2) as pool:
        running = [started(pool.score(hours, Lane.BATCH)) for _ in range(2)]
        await until_busy(pool, 2)
        waiting = [started(pool.score(short, lane)) for lane in Lane]
        await until_waiting(pool, 2)
        closed_at = now()
        await asyncio.to_thread(pool.close)
        assert now() - closed_at < 1
        for task in (*running, *waiting):
            with pytest.raises(EngineFailed, match="the engine is closed"):
                await task
        with pytest.raises(EngineFailed, match="the engine is closed"):
            await pool.score(short, Lane.BATCH)


async def test_closing_as_work_begins(model: Model, hours: Evaluation) -> None:
    """close() is prompt, too, when a context has only just taken work."""
    for _ in range(10):
        with open_pool(model, contexts=2) as pool:
            running = [started(pool.score(hours, Lane.BATCH)) for _ in range(2)]
            await until(lambda pool=pool: len(pool._schedule.running) > 0)
            closed_at = now()
            pool.close()
            assert now() - closed_at < 2
            for task in running:
                with pytest.raises(EngineFailed):
                    await task


def test_a_pool_outlives_its_loop(
    model: Model, hours: Evaluation, short: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """A loop that ended with work unanswered does not hurt the pool; another loop can use it."""

    async def leave() -> None:
        running = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        running.cancel()

    async def ask() -> Reply:
        return await pool.score(short, Lane.BATCH)

    with open_pool(model) as pool:
        asyncio.run(leave())
        assert expected == asyncio.run(ask()).readings


# --- at the same time -----------------------------------------------------------------------------


async def test_two_contexts_work_at_once(model: Model) -> None:
    """On two contexts the second ticket starts before the first is done; on one it waits."""
    evaluations = [make_evaluation(model, replace(SECONDS, seed=seed)) for seed in range(2)]

    async def replies(pool: Pool) -> list[Reply]:
        return await asyncio.gather(*(pool.score(one, Lane.BATCH) for one in evaluations))

    with open_pool(model, contexts=2) as pool:
        together = await replies(pool)
    with open_pool(model) as pool:
        in_turn = await replies(pool)
    shortest = min(reply.evaluation_seconds for reply in together)
    assert max(reply.waiting_seconds for reply in together) < shortest / 2
    shortest = min(reply.evaluation_seconds for reply in in_turn)
    assert max(reply.waiting_seconds for reply in in_turn) > shortest / 2
    assert [reply.readings for reply in in_turn] == [reply.readings for reply in together]


async def test_the_loop_keeps_running(model: Model, hours: Evaluation) -> None:
    """While every context decodes for over a second, the event loop never waits for them."""
    ticks: list[float] = []
    loop = asyncio.get_running_loop()

    def tick() -> None:
        ticks.append(time.monotonic())
        ticking.append(loop.call_later(0.005, tick))

    ticking: list[asyncio.TimerHandle] = []
    with open_pool(model, contexts=2) as pool:
        running = [started(pool.score(hours, Lane.BATCH)) for _ in range(2)]
        await until_busy(pool, 2)
        tick()
        done, _ = await asyncio.wait(running, timeout=1.2)
        ticking[-1].cancel()
        assert set() == done
        assert 2 == len(pool._schedule.running)
        await given_up(*running)
    gaps = [after - before for before, after in pairwise(ticks)]
    assert ticks[-1] - ticks[0] > 1
    assert max(gaps) < 0.25
    assert len(ticks) > 60  # 240 without any load


async def test_idle_contexts_lend_their_threads(model: Model) -> None:
    """A lone ticket has every thread, two tickets share them, and the bits stay."""
    evaluation = make_evaluation(model, Lengths(700, (40, 3)))
    expected = expected_readings(model, QUANTISED_OPTIONS, evaluation)
    with open_pool(model, contexts=2, threads=2) as pool:
        reply = await pool.score(evaluation, Lane.BATCH)
        threads = sorted(native.llama_n_threads_batch(one._handle) for one in contexts_of(pool))
        assert [2, 4] == threads
        assert 4 == pool.threads_each()
        assert expected == reply.readings
        replies = await asyncio.gather(*(pool.score(evaluation, Lane.BATCH) for _ in range(2)))
        assert [expected] * 2 == [one.readings for one in replies]
        assert is_empty(pool)


# --- contexts that cannot be made -----------------------------------------------------------------


def test_a_pool_that_cannot_start_says_so(tiny_models: TinyModels) -> None:
    """A second context that cannot be made is a CannotRun; the first one's memory is free again."""
    code = """
        import resource, sys
        from pathlib import Path
        from worker.engine.llama import Context, Model
        from worker.engine.options import ModelOptions
        from tests.integration.pools import contexts_of, open_pool
        from worker.engine.tokenising import (
            MAX_CHARACTERS, STACK_BYTES_PER_CHARACTER, thread_count
        )
        from worker.errors import CannotRun

        def address_space(field):
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))

        options = ModelOptions(context_tokens=1 << 18, threads=1)
        with Model.load(Path(sys.argv[1]), options) as model:
            before = address_space("VmSize")
            with Context(model, options):
                cost = address_space("VmPeak") - before
            stack = MAX_CHARACTERS * STACK_BYTES_PER_CHARACTER * thread_count()
            limit = address_space("VmSize") + cost * 3 // 2 + stack
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            try:
                with open_pool(model, contexts=2, options=options):
                    print("both fit")
            except CannotRun as error:
                print(error)
            with open_pool(model, options=options) as pool:
                print(len(contexts_of(pool)), "starts")
    """
    child = in_a_child(code, str(tiny_models.path()))
    assert (0, "") == (child.returncode, child.stderr)
    message, after = child.stdout.splitlines()
    assert message.startswith("llama.cpp cannot make a context of 262144 tokens: ")
    assert "1 starts" == after


async def test_closing_waits_for_what_is_tokenised(tiny_models: TinyModels) -> None:
    """A cancelled caller's state is still being tokenised when the model is closed: no crash."""
    with Model.load(tiny_models.path(), QUANTISED_OPTIONS) as model:
        huge = make_evaluation(model, Lengths(60_000, (10,) * 8))
        with open_pool(model) as pool:
            task = started(pool.score(huge, Lane.BATCH))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})

    assert task.cancelled()


LONG_RUN = 200_000
"""On an ordinary stack llama.cpp's regular expressions crash on runs of 32,000 letters."""


def test_a_long_run_of_letters_does_not_crash(tmp_path: Path) -> None:
    """Vocabularies whose text is split by a recursive expression take any run of letters."""
    path = write_tiny_gguf(
        tmp_path / "model.gguf", tokenizer="bpe", metadata={"tokenizer.ggml.pre": "gpt-4o"}
    )
    state = tmp_path / "state.txt"
    state.write_text("a" * LONG_RUN)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "worker",
            "ask",
            "--model",
            str(path),
            "--noul",
            "a=b",
            "--state",
            f"@{state}",
        ],
        capture_output=True,
        text=True,
    )

    assert 2 == done.returncode
    assert "tokens, the context holds" in done.stderr


async def test_a_prompt_deeper_than_the_stack_is_rejected(model: Model) -> None:
    """Text that could overflow even the deep stack is refused before it is read."""
    prompt = (Piece("a" * (1 << 20), trusted=False), Piece("b", trusted=False))
    evaluation = Evaluation((prompt, prompt), (Branch(prompt, (1,)),))
    with open_pool(model) as pool, pytest.raises(Rejected) as caught:
        await pool.score(evaluation, Lane.BATCH)

    assert "prompt_too_long" == caught.value.code


# --- idle contexts join ---------------------------------------------------------------------------

MANY = Lengths(300, (150,) * 40)


@pytest.mark.parametrize("kind", [Tiny(kind) for kind in Kind], ids=str)
async def test_idle_contexts_read_branches_of_a_lone_ticket(
    tiny_models: TinyModels, kind: Tiny
) -> None:
    """A ticket that nothing waits beside has all contexts, and the same bits."""
    model = tiny_models.load(kind)
    evaluation = make_evaluation(model, MANY)
    with open_pool(model, contexts=3, max_parked_bytes=1 << 28) as pool:
        answer = started(pool.score(evaluation, Lane.BATCH))
        await until(lambda: len(pool._joined) == 2)
        reply = await answer
        assert is_empty(pool)
    assert expected_readings(model, QUANTISED_OPTIONS, evaluation) == reply.readings
    assert 39 * 299 == reply.input_tokens - reply.evaluated_tokens


async def test_a_context_that_joined_leaves_for_new_work(
    model: Model, short: Evaluation, hours: Evaluation, expected: tuple[Reading, ...]
) -> None:
    """What comes later has its context at the next call; the lone ticket keeps its own."""
    with open_pool(model, contexts=2) as pool:
        running = started(pool.score(hours, Lane.BATCH))
        await until(lambda: bool(pool._joined))
        reply = await pool.score(short, Lane.BATCH)
        assert not running.done()
        await given_up(running)
        await until(lambda: not pool._schedule.running and not pool._joined)
        assert is_empty(pool)
    assert expected == reply.readings


async def test_a_context_that_cannot_join_harms_nobody(model: Model, hours: Evaluation) -> None:
    """A state that llama.cpp does not take costs that context a rebuild, nobody an answer."""
    evaluation = make_evaluation(model, MANY)
    with open_pool(model, contexts=3) as pool:
        busy = started(pool.score(hours, Lane.BATCH))
        await until_busy(pool)
        answer = started(pool.score(evaluation, Lane.BATCH))
        await until(lambda: bool(pool._joined))
        (offer,) = pool._offers.values()
        offer.state[0][:] = bytes(len(offer.state[0]))
        await given_up(busy)
        await until(lambda: not offer.is_open)
        reply = await answer
        assert is_empty(pool)
        assert 3 == len(contexts_of(pool))
    assert expected_readings(model, QUANTISED_OPTIONS, evaluation) == reply.readings
