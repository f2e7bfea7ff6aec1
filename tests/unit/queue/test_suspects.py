"""Tickets that may end the process: nobody waits behind one that has failed twice."""

import asyncio
from collections.abc import Sequence

from tests.factories import make_body
from tests.unit.queue.bench import Bench, make_bench
from tests.virtual_time import advance
from worker.ports import Delivery


async def received_before(bench: Bench, *receipts: int) -> Sequence[Delivery]:
    """Receive messages at once, each of which has been received so often then."""
    for number, count in enumerate(receipts):
        bench.inbox.put(make_body(), message_id=str(number))
        bench.inbox.messages[str(number)].receive_count = count - 1
    return await bench.inbox.receive(len(receipts))


async def carry_until_the_gate(bench: Bench, deliveries: Sequence[Delivery]) -> "list[str]":
    """Carry side by side; return which were released while the first evaluation is held up."""
    bench.engine.gate = asyncio.Event()
    carrying = [asyncio.create_task(bench.handler.carry(delivery)) for delivery in deliveries]
    await bench.journal.until("evaluate")
    await advance(1)
    released = [entry[1] for entry in bench.journal.of("release")]
    bench.engine.gate.set()
    await asyncio.gather(*carrying)
    return released


async def test_nobody_waits_behind_what_has_failed_twice() -> None:
    """Those received before go back, and stay away a while, before it is evaluated."""
    bench = make_bench()
    released = await carry_until_the_gate(bench, await received_before(bench, 3, 3, 2))

    assert ["1", "2"] == sorted(released)
    assert all(delay > 0 for _, _, delay in bench.journal.of("release"))
    assert [("delete", "0")] == bench.journal.of("delete")


async def test_it_is_evaluated_once_the_others_are_gone() -> None:
    """A kill must not overtake the releases."""
    bench = make_bench()
    bench.inbox.faults.gates["release"] = asyncio.Event()
    deliveries = await received_before(bench, 3, 3)
    carrying = [asyncio.create_task(bench.handler.carry(delivery)) for delivery in deliveries]
    await bench.journal.until("release")
    await advance(1)
    before = len(bench.engine.evaluations)
    bench.inbox.faults.gates["release"].set()
    await asyncio.gather(*carrying)

    assert (0, 1) == (before, len(bench.engine.evaluations))


async def test_what_waits_makes_way_when_its_turn_comes() -> None:
    """Behind one that failed once others may wait, but not once the next has failed twice."""
    bench = make_bench()
    released = await carry_until_the_gate(bench, await received_before(bench, 2, 3, 3))

    assert [] == released
    assert [("delete", "0"), ("delete", "1")] == bench.journal.of("delete")
    assert ["2"] == [entry[1] for entry in bench.journal.of("release")]


async def test_what_failed_once_is_carried_one_after_another() -> None:
    """Each is deleted before the next is evaluated: a kill takes no finished one along."""
    bench = make_bench()
    await carry_until_the_gate(bench, await received_before(bench, 2, 2, 2))

    named = [entry[0] for entry in bench.journal.named("evaluate", "publish", "delete")]
    assert 3 * ["evaluate", "publish", "delete"] == named


async def test_a_cancelled_suspect_holds_nobody_up() -> None:
    """Whether it waits or has its turn."""
    bench = make_bench()
    first, second, third = await received_before(bench, 2, 2, 2)
    bench.engine.gate = asyncio.Event()
    one, two, three = (
        asyncio.create_task(bench.handler.carry(delivery)) for delivery in (first, second, third)
    )
    await bench.journal.until("evaluate")
    two.cancel()
    one.cancel()
    await asyncio.gather(one, two, return_exceptions=True)
    bench.engine.gate.set()
    await three

    assert [("delete", "2")] == bench.journal.of("delete")


async def test_healthy_tickets_that_have_failed_before_are_not_used_up() -> None:
    """After an outage all have a count: each is answered, at the cost of one more receive at most.

    A queue gives up at a count of its own, and making way must not bring anybody there.
    """
    bench = make_bench(max_backoff_seconds=900)
    bench.engine.gate = gate = asyncio.Event()
    for number in range(12):
        bench.inbox.put(make_body(), message_id=str(number))
        bench.inbox.messages[str(number)].receive_count = 2
    counts: dict[str, int] = {}
    consuming = asyncio.create_task(bench.consumer(max_in_hand=16).run())
    while bench.inbox.messages:
        await advance(10)  # which an evaluation takes
        gate.set()
        counts |= {name: one.receive_count for name, one in bench.inbox.messages.items()}
        await advance(0.1)
        gate.clear()
    bench.lifecycle.stop("end of test")
    await consuming

    assert 12 == len(bench.journal.of("delete"))
    assert max(counts.values()) <= 4
