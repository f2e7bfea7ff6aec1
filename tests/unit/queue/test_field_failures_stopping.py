"""Failures of other consumers when they stop, each named after its symptom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.factories import make_body
from tests.unit.queue.bench import Bench, make_bench, now
from tests.virtual_time import advance
from worker.errors import EngineFailed, ExitCode

RUNNING = Path(__file__).parents[3] / "docs" / "running.md"


def put(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.inbox.put(make_body(ticket_id=f"t-{number}"))


def hold_polls(bench: Bench) -> asyncio.Event:
    """Let polls wait until the event is set."""
    bench.inbox.faults.gates["receive"] = gate = asyncio.Event()
    return gate


def hold_work(bench: Bench) -> asyncio.Event:
    """Let evaluations wait until the event is set."""
    bench.engine.gate = gate = asyncio.Event()
    return gate


@asynccontextmanager
async def consuming(
    bench: Bench, *, max_in_hand: int = 4, drain_seconds: float = 20.0
) -> AsyncIterator["asyncio.Task[None]"]:
    consumer = bench.consumer(max_in_hand=max_in_hand, drain_seconds=drain_seconds)
    bench.lifecycle.ready()
    task = asyncio.create_task(consumer.run())
    yield task
    bench.lifecycle.stop("end of test")
    await task


async def test_a_message_received_during_a_warm_shutdown_waits_out_its_visibility() -> None:
    """What the last poll brings is visible to others at once."""
    bench = make_bench()
    gate = hold_polls(bench)
    put(bench, 3)
    async with consuming(bench) as task:
        await bench.journal.until("receive")
        bench.lifecycle.stop("SIGTERM")
        gate.set()
        await task
        assert [0, 0, 0] == [delay for *_, delay in bench.journal.of("release")]
        assert 3 == len(await bench.inbox.receive(10))


async def test_a_cancelled_poll_strands_messages() -> None:
    """A stop cancels no poll: SQS would still hand messages to whoever hung up."""
    bench = make_bench()
    hold_polls(bench)
    async with consuming(bench) as task:
        await bench.journal.until("receive")
        bench.lifecycle.stop("SIGTERM")
        await advance(60)
        assert not task.done()
        bench.inbox.faults.gates["receive"].set()
        await task
    assert 0 == bench.inbox.cancelled_polls


async def test_a_poll_that_its_client_aborts_is_still_answered_by_the_server() -> None:
    """The stop outlasts a whole long poll, and then there is nothing more to wait for."""
    bench = make_bench(wait_seconds=20)
    async with consuming(bench) as task:
        await bench.journal.until("receive")
        asked_at = now()
        bench.lifecycle.stop("SIGTERM")
        await task
        assert 20 == now() - asked_at


async def test_deploys_are_the_main_source_of_dead_letters() -> None:
    """With time to drain, what is in hand is finished: no receive is spent on a deploy."""
    bench = make_bench()
    gate = hold_work(bench)
    put(bench, 4)
    async with consuming(bench) as task:
        await bench.journal.until("evaluate", times=4)
        bench.lifecycle.stop("SIGTERM")
        await advance(10)
        gate.set()
        await task
    assert not bench.inbox.messages
    assert not bench.journal.of("release")
    assert ExitCode.DONE == bench.lifecycle.exit_code()


async def test_an_engine_that_fails_strands_the_poll_as_well() -> None:
    """However the process ends, its last poll is awaited and what it brings goes back."""
    bench = make_bench()
    put(bench, 1)
    bench.engine.error = EngineFailed("broken")
    async with consuming(bench, max_in_hand=2) as task:
        await bench.journal.until("evaluate")
        await task
    assert 0 == bench.inbox.cancelled_polls
    assert 1 == len(await bench.inbox.receive(10))
    assert ExitCode.ENGINE_FAILED == bench.lifecycle.exit_code()


async def test_it_polls_while_it_says_it_has_stopped() -> None:
    """The last poll has ended before the consumer returns, and none begins after a stop."""
    bench = make_bench()
    async with consuming(bench) as task:
        await bench.journal.until("receive", times=3)
        bench.lifecycle.stop("SIGTERM")
        polls = len(bench.journal.of("receive"))
        await task
        put(bench, 1)
        await advance(600)
        assert polls == len(bench.journal.of("receive"))


async def test_scale_in_kills_work_in_flight() -> None:
    """Work that outlasts a drain's deadline is given back, not lost; its exit code says so."""
    bench = make_bench()
    hold_work(bench)
    put(bench, 2)
    async with consuming(bench, drain_seconds=5) as task:
        await bench.journal.until("evaluate", times=2)
        bench.lifecycle.stop("SIGTERM")
        await task
    assert 2 == bench.engine.cancelled
    assert not bench.publisher.published
    assert 2 == len(await bench.inbox.receive(10))
    assert ExitCode.DRAINED_UNFINISHED == bench.lifecycle.exit_code()


async def test_a_stop_abandons_messages_already_received() -> None:
    """Also those that were in hand but had not begun: here, behind one of their group."""
    bench = make_bench(in_order=True)
    hold_work(bench)
    for number in range(3):
        bench.inbox.put(make_body(ticket_id=f"t-{number}"), group_id="one")
    async with consuming(bench, drain_seconds=5) as task:
        await bench.journal.until("evaluate")
        bench.lifecycle.stop("SIGTERM")
        await task
    assert 1 == len(bench.engine.evaluations)
    assert {"m-1", "m-2", "m-3"} == {name for _, name, _ in bench.journal.of("release")}
    assert 3 == len(await bench.inbox.receive(10))


def test_nothing_says_how_to_stop_it() -> None:
    """The documents do, with the exit codes."""
    text = RUNNING.read_text("utf-8")

    assert "SIGTERM and SIGINT drain" in text
    assert "| 6 | drained by the deadline with work released unfinished" in text
