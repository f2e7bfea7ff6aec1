"""The consumer: never more in hand than allowed, and nothing lost when it stops."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.factories import make_body
from tests.unit.queue.bench import Bench, make_bench, now
from tests.virtual_time import advance
from worker.errors import AwsUnavailable, AwsUnusable, ExitCode
from worker.lifecycle import Phase
from worker.queue.consumer import Consumer

UNAVAILABLE = AwsUnavailable("throttled")


@asynccontextmanager
async def running(bench: Bench, consumer: Consumer) -> AsyncIterator[asyncio.Task[None]]:
    """Run *consumer* until the test ends; a test stops it itself, or leaves it to this."""
    bench.lifecycle.ready()
    task = asyncio.create_task(consumer.run())
    try:
        yield task
    finally:
        bench.lifecycle.stop("the test is over")
        for gate in (bench.engine.gate, *bench.inbox.faults.gates.values()):
            if gate is not None:
                gate.set()
        await task


def put(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.inbox.put(make_body(ticket_id=f"t-{number}"))


async def test_every_ticket_is_decided() -> None:
    """All that is in the queue is carried to its end, each once."""
    bench = make_bench()
    put(bench, 35)
    async with running(bench, bench.consumer()):
        await bench.journal.until("delete", times=35)

    assert {f"t-{number}" for number in range(35)} == {
        published.outcome["ticket_id"] for published in bench.publisher.published
    }
    assert 35 == len(bench.publisher.published)
    assert ExitCode.DONE == bench.lifecycle.exit_code()


@pytest.mark.parametrize("max_in_hand", [1, 3, 12, 25])
async def test_never_more_in_hand_than_allowed(max_in_hand: int) -> None:
    """As many are asked for as there are free places, at most ten at once."""
    bench = make_bench()
    bench.engine.gate = asyncio.Event()
    put(bench, 40)
    async with running(bench, bench.consumer(max_in_hand=max_in_hand)):
        await bench.journal.until("evaluate", times=max_in_hand)
        await advance(100)
        asked = [most for _, most in bench.journal.of("receive")]
        in_hand = len(bench.engine.evaluations)
        bench.engine.gate.set()
        await bench.journal.until("delete", times=40)

    assert max_in_hand == in_hand == sum(asked)
    assert max(asked) <= 10
    assert max_in_hand == bench.engine.most_at_work
    assert bench.inbox.most_in_flight <= max_in_hand


async def test_a_free_place_is_filled_at_once() -> None:
    """One slow ticket does not hold up the others' places."""
    bench = make_bench()
    bench.publisher.faults.gates["publish"] = asyncio.Event()
    put(bench, 3)
    async with running(bench, bench.consumer(max_in_hand=2)):
        await bench.journal.until("publish", times=2)
        assert 2 == len(bench.engine.evaluations)
        bench.publisher.faults.gates["publish"].set()
        await bench.journal.until("delete", times=3)


async def test_no_more_is_received_while_many_tokens_wait() -> None:
    """A few long tickets fill the engine as well as many short ones; callers' tokens do not."""
    bench = make_bench()
    bench.engine.waiting_tokens = 1000
    bench.engine.gate = asyncio.Event()
    put(bench, 30)
    async with running(bench, bench.consumer(max_in_hand=25)):
        await bench.journal.until("evaluate", times=10)
        await advance(100)
        assert [("receive", 10)] == bench.journal.of("receive")
        bench.engine.waiting_tokens = 999
        bench.engine.gate.set()
        await bench.journal.until("delete", times=30)

    assert 30 == len(bench.publisher.published)


async def test_whoever_watches_is_told_what_is_in_hand() -> None:
    """How many deliveries are held, whenever that changes; and which, when asked."""
    bench = make_bench()
    bench.engine.gate = asyncio.Event()
    told: list[int] = []
    put(bench, 2)
    consumer = replace(bench.consumer(), on_change=told.append)
    async with running(bench, consumer):
        await bench.journal.until("evaluate", times=2)
        assert ["m-1", "m-2"] == consumer.in_hand()
        bench.engine.gate.set()
        await bench.journal.until("delete", times=2)

    assert (2, 0) == (max(told), told[-1])
    assert [] == consumer.in_hand()


async def test_a_stop_before_the_first_poll_is_not_lost() -> None:
    """Whoever is told to stop before it began receives nothing."""
    bench = make_bench()
    put(bench, 1)
    bench.lifecycle.stop("SIGTERM")
    await bench.consumer().run()

    assert [] == bench.journal.entries


async def test_a_stop_lets_the_poll_return_and_releases_what_it_brings() -> None:
    """A cancelled poll would swallow messages: it is awaited, and its deliveries go back."""
    bench = make_bench()
    bench.inbox.faults.gates["receive"] = asyncio.Event()
    async with running(bench, bench.consumer()) as task:
        await bench.journal.until("receive")
        bench.lifecycle.stop("SIGTERM")
        put(bench, 2)
        await advance(1)
        assert not task.done()
        bench.inbox.faults.gates["receive"].set()
        await task

    assert [("receive", 4), ("release", "m-1", 0), ("release", "m-2", 0)] == bench.journal.entries
    assert 0 == bench.inbox.cancelled_polls
    assert ExitCode.DONE == bench.lifecycle.exit_code()


async def test_a_stop_ends_the_wait_for_a_place() -> None:
    """With all places taken nothing more is received, and the drain begins at once."""
    bench = make_bench()
    bench.engine.gate = asyncio.Event()
    put(bench, 2)
    async with running(bench, bench.consumer(max_in_hand=1)) as task:
        await bench.journal.until("evaluate")
        await advance(1)
        bench.lifecycle.stop("SIGTERM")
        await advance(1)
        bench.engine.gate.set()
        await task

    assert 1 == len(bench.journal.of("receive"))
    assert ["m-2"] == list(bench.inbox.messages)


async def test_a_failing_poll_backs_off() -> None:
    """Polls that fail come more and more seldom, up to half a minute apart, with jitter."""
    bench = make_bench()
    bench.inbox.faults.always["receive"] = UNAVAILABLE
    async with running(bench, bench.consumer()):
        polled_at = []
        for number in range(1, 12):
            await bench.journal.until("receive", times=number)
            polled_at.append(now())
        bench.lifecycle.stop("SIGTERM")

    pauses = [later - earlier for earlier, later in pairwise(polled_at)]
    longest = [2, 4, 8, 16, 30, 30, 30, 30, 30, 30]
    assert all(most / 2 <= p <= most + 0.01 for p, most in zip(pauses, longest, strict=True))
    assert len({round(pause, 6) for pause in pauses}) == len(pauses)
    assert not bench.lifecycle.failure


async def test_a_poll_that_works_again_begins_anew() -> None:
    """After a success the next failure pauses as briefly as the first."""
    bench = make_bench()
    faults: deque[Exception] = bench.inbox.faults.once["receive"]
    faults += [UNAVAILABLE] * 5
    put(bench, 1)
    async with running(bench, bench.consumer()):
        await bench.journal.until("delete")
        faults.append(UNAVAILABLE)
        failing = len(bench.journal.of("receive")) + 1
        await bench.journal.until("receive", times=failing)
        failed_at = now()
        await bench.journal.until("receive", times=failing + 1)

        assert now() - failed_at <= 2 + bench.inbox.wait_seconds


async def test_a_stop_ends_a_pause() -> None:
    """A worker that waits after a failed poll stops at once."""
    bench = make_bench()
    bench.inbox.faults.always["receive"] = UNAVAILABLE
    async with running(bench, bench.consumer()) as task:
        await bench.journal.until("receive", times=6)
        await advance(1)
        stopped_at = now()
        bench.lifecycle.stop("SIGTERM")
        await task

    assert stopped_at == now()


async def test_a_poll_that_is_refused_for_good_ends_the_process() -> None:
    """A queue that is gone, or a permission that is missing, is not tried for ever."""
    bench = make_bench()
    bench.inbox.faults.always["receive"] = AwsUnusable("NonExistentQueue")
    async with running(bench, bench.consumer()) as task:
        await task

    assert 1 == len(bench.journal.of("receive"))
    assert ExitCode.AWS_UNUSABLE == bench.lifecycle.exit_code()


async def test_the_drain_lets_work_finish() -> None:
    """What is held when the stop comes is finished, its lease held longer than one visibility."""
    bench = make_bench()
    bench.engine.gate = asyncio.Event()
    put(bench, 2)
    async with running(bench, bench.consumer(drain_seconds=100)) as task:
        await bench.journal.until("evaluate", times=2)
        bench.lifecycle.stop("SIGTERM")
        await advance(90)
        assert Phase.DRAINING == bench.lifecycle.phase
        bench.engine.gate.set()
        await task

    assert 2 == len(bench.publisher.published)
    assert not bench.inbox.messages
    assert ExitCode.DONE == bench.lifecycle.exit_code()


@pytest.mark.parametrize("drain_seconds", [0, 20])
async def test_the_drain_ends_at_its_deadline(drain_seconds: float) -> None:
    """What is not finished by then is released at once and counted; nothing of it is published."""
    bench = make_bench(wait_seconds=1)
    bench.engine.gate = asyncio.Event()
    put(bench, 3)
    async with running(bench, bench.consumer(max_in_hand=3, drain_seconds=drain_seconds)) as task:
        await bench.journal.until("evaluate", times=3)
        stopped_at = now()
        bench.lifecycle.stop("SIGTERM")
        await task

        assert pytest.approx(stopped_at + drain_seconds) == now()

    assert {("release", f"m-{number}", 0) for number in (1, 2, 3)} == set(
        bench.journal.of("release")
    )
    assert [] == bench.publisher.published
    assert 3 == bench.lifecycle.unfinished
    assert ExitCode.DRAINED_UNFINISHED == bench.lifecycle.exit_code()


async def test_only_the_late_are_released() -> None:
    """At the drain's deadline the finished stay finished."""
    bench = make_bench(wait_seconds=1)
    bench.publisher.faults.gates["publish"] = asyncio.Event()
    put(bench, 1)
    async with running(bench, bench.consumer(max_in_hand=2)) as task:
        await bench.journal.until("publish")
        bench.engine.gate = asyncio.Event()
        put(bench, 1)
        await bench.journal.until("evaluate", times=2)
        bench.lifecycle.stop("SIGTERM")
        bench.publisher.faults.gates["publish"].set()
        await task

    assert 1 == len(bench.publisher.published)
    assert [("release", "m-2", 0)] == bench.journal.of("release")
    assert 1 == bench.lifecycle.unfinished


async def test_a_bug_in_one_delivery_leaves_the_others_alone() -> None:
    """One poison ticket is released; its neighbours are decided."""
    bench = make_bench()
    bench.engine.script = deque([None, ZeroDivisionError("a bug"), None])
    put(bench, 3)
    async with running(bench, bench.consumer()):
        await bench.journal.until("delete", times=2)

    assert ["m-1", "m-3"] == [message_id for _, message_id in bench.journal.of("delete")][:2]
    assert "m-2" == bench.journal.of("release")[0][1]


async def test_an_engine_failure_drains_the_rest() -> None:
    """When the engine is broken for good, what is held ends and nothing more is received."""
    bench = make_bench()
    bench.engine.script = deque([AwsUnusable("gone")])
    put(bench, 10)
    async with running(bench, bench.consumer(max_in_hand=2)) as task:
        await task

    assert 1 == len(bench.journal.of("receive"))
    assert ExitCode.AWS_UNUSABLE == bench.lifecycle.exit_code()


async def test_the_heart_stops_with_the_consumer() -> None:
    """After the drain no task is left behind."""
    bench = make_bench()
    put(bench, 1)
    async with running(bench, bench.consumer()):
        await bench.journal.until("delete")
    await advance(0)

    assert {asyncio.current_task()} == asyncio.all_tasks()
