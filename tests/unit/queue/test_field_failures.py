"""Failures of other consumers, each named after its symptom."""

import asyncio
from collections import deque
from collections.abc import Sequence

import pytest

from tests.factories import make_body
from tests.fakes import FakeInbox
from tests.unit.queue.bench import Bench, beating, make_bench, make_leases, now
from tests.virtual_time import advance
from worker.errors import AwsUnavailable, EngineBusy, LeaseLost
from worker.ports import Delivery, Lane

UNAVAILABLE = AwsUnavailable("throttled")
TWELVE_HOURS_SECONDS = 43_200


async def carry_all(bench: Bench, deliveries: Sequence[Delivery]) -> None:
    """Carry what came with one receive, as the consumer does."""
    for delivery in deliveries:
        bench.handler.groups.join(delivery)
    await asyncio.gather(*map(bench.handler.carry, deliveries))


async def test_extension_fails_near_twelve_hours() -> None:
    """The last extension reaches no further than SQS allows, and the end is named."""
    inbox = FakeInbox()
    leases = make_leases(inbox)
    inbox.put("body")
    [delivery] = await inbox.receive(1)
    async with beating(leases):
        with pytest.raises(LeaseLost, match="12 hours"):
            async with leases.hold(delivery):
                await advance(2 * TWELVE_HOURS_SECONDS - 3600)

    ceiling = delivery.asked_at + TWELVE_HOURS_SECONDS
    assert ceiling - 2 <= now() <= ceiling
    assert 30 > inbox.journal.of("extend")[-1][2]


async def test_a_dedup_hit_on_a_finished_ticket_is_deleted() -> None:
    """Published but not deleted: the redelivery is deleted, without work or a second outcome."""
    bench = make_bench()
    bench.inbox.faults.once["delete"].append(UNAVAILABLE)
    await bench.carry(make_body())
    await advance(31)
    [again] = await bench.inbox.receive(1)
    await bench.handler.carry(again)

    assert 1 == len(bench.engine.evaluations)
    assert 1 == len(bench.publisher.published)
    assert not bench.inbox.messages


async def test_in_memory_dedup_refuses_no_unfinished_ticket() -> None:
    """What was released before its outcome was out is evaluated when it comes again."""
    bench = make_bench()
    bench.publisher.faults.once["publish"].append(UNAVAILABLE)
    await bench.carry(make_body())
    await advance(31)
    [again] = await bench.inbox.receive(1)
    await bench.handler.carry(again)

    assert 2 == len(bench.engine.evaluations)
    assert not bench.inbox.messages


async def test_a_throttled_rejection_is_copied_once() -> None:
    """A rejection that could not be published leaves one dead letter, not one for each try."""
    bench = make_bench()
    bench.publisher.faults.once["publish"].append(UNAVAILABLE)
    await bench.carry("{")
    await advance(31)
    [again] = await bench.inbox.receive(1)
    await bench.handler.carry(again)

    assert 1 == len(bench.inbox.dead_letters)
    assert 1 == len(bench.publisher.published)
    assert not bench.inbox.messages


@pytest.mark.parametrize("in_order", [True, False])
async def test_fifo_order_is_lost_after_one_failure(in_order: bool) -> None:
    """On a FIFO queue later messages of the group are released with it; others are decided."""
    bench = make_bench(in_order=in_order)
    bench.engine.script = deque([EngineBusy(1, 1)])
    for group in ("a", "a", "a", "b"):
        bench.inbox.put(make_body(), group_id=group)
    deliveries = await bench.inbox.receive(4)
    await carry_all(bench, deliveries)

    released = {entry[1] for entry in bench.journal.of("release")}
    assert ({"m-1", "m-2", "m-3"} if in_order else {"m-1"}) == released
    assert ("delete", "m-4") in bench.journal.entries


async def test_fifo_stalls_because_one_group_blocks() -> None:
    """One message of a group at a time, in order, while other groups go on."""
    bench = make_bench(in_order=True)
    bench.engine.gate = asyncio.Event()
    for group in ("a", "a", "b"):
        bench.inbox.put(make_body(), group_id=group)
    deliveries = await bench.inbox.receive(3)
    carrying = asyncio.create_task(carry_all(bench, deliveries))
    await bench.journal.until("evaluate", times=2)
    await advance(1)
    at_work = bench.engine.at_work
    bench.engine.gate.set()
    await carrying

    deleted = [message_id for _, message_id in bench.journal.of("delete")]
    assert 2 == at_work
    assert deleted.index("m-1") < deleted.index("m-2")


async def test_a_poison_ticket_drags_no_neighbour_along() -> None:
    """What was received before is evaluated while nothing else is, of either lane."""
    bench = make_bench()
    bench.inbox.put(make_body())
    bench.inbox.messages["m-1"].receive_count = 1
    bench.inbox.put(make_body())
    again, first = await bench.inbox.receive(2)
    bench.engine.gate = asyncio.Event()
    opener = bench.handler.opener
    ticket = await opener.ticket(first, await opener.unwrap(first))
    carrying = [asyncio.create_task(bench.handler.carry(again))]
    await bench.journal.until("evaluate")
    carrying.append(asyncio.create_task(bench.handler.carry(first)))
    asking = asyncio.create_task(bench.handler.evaluator.evaluate(ticket, Lane.INTERACTIVE))
    await advance(1)
    at_work = bench.engine.at_work
    bench.engine.gate.set()
    await asyncio.gather(*carrying, asking)

    assert 2 == again.receive_count
    assert 1 == at_work
    assert [Lane.BATCH, Lane.BATCH, Lane.INTERACTIVE] == bench.engine.lanes


async def test_a_kept_rejection_keeps_its_place_in_the_group() -> None:
    """A rejected ticket that stays on a FIFO queue is not overtaken by the next of its group."""
    bench = make_bench(in_order=True, has_dead_letter_queue=False)
    for body in ("{", make_body()):
        bench.inbox.put(body, group_id="a")
    deliveries = await bench.inbox.receive(2)
    await carry_all(bench, deliveries)

    assert {"m-1", "m-2"} == {entry[1] for entry in bench.journal.of("release")}
    assert [] == bench.engine.evaluations


async def test_the_consumer_keeps_the_order_of_groups() -> None:
    """A first message that fails at once is not overtaken by what came in the same receive."""
    bench = make_bench(in_order=True, has_dead_letter_queue=False)
    for body in ("{", make_body()):
        bench.inbox.put(body, group_id="a")
    running = asyncio.create_task(bench.consumer().run())
    await bench.journal.until("release", times=2)
    bench.lifecycle.stop("the test is over")
    await running

    assert [] == bench.engine.evaluations
