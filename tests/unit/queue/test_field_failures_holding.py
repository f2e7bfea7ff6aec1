"""Failures of other consumers with what they hold, each named after its symptom."""

import asyncio
from collections import deque

from prometheus_client import REGISTRY

from tests.factories import make_body, make_delivery
from tests.fakes import FakeDocuments
from tests.unit.queue.bench import beating, make_bench
from tests.unit.queue.test_envelope import make_envelope, make_pointer
from tests.unit.queue.test_field_failures_stopping import consuming, hold_work, put
from tests.unit.queue.test_sqs import FakeSqs, inbox
from tests.virtual_time import advance
from worker import metrics
from worker.errors import AwsUnavailable, DecodeFailed, EngineBusy
from worker.queue.locations import AllowList, Prefix
from worker.queue.opening import Bookcase, Opener

UNAVAILABLE = AwsUnavailable("throttled")


async def test_prefetched_tickets_run_twice() -> None:
    """The heartbeat covers what only waits for its turn: nobody else receives it."""
    bench = make_bench(in_order=True)
    hold_work(bench)
    for number in range(3):
        bench.inbox.put(make_body(ticket_id=f"t-{number}"), group_id="one")
    async with consuming(bench):
        await bench.journal.until("evaluate")
        await advance(600)
        assert [1, 1, 1] == [message.receive_count for message in bench.inbox.messages.values()]
        assert bench.engine.gate is not None
        bench.engine.gate.set()
        await bench.journal.until("delete", times=3)
    assert 3 == len(bench.publisher.published)


async def test_the_configured_visibility_is_ignored() -> None:
    """Each receive asks for the visibility that leases count with."""
    sqs = FakeSqs()
    await inbox(sqs).receive(4)

    (asked,) = sqs.receives
    assert (30, 4) == (asked["VisibilityTimeout"], asked["MaxNumberOfMessages"])


async def test_full_hands_burn_a_whole_cpu() -> None:
    """While every place is taken nothing is polled, and nothing spins."""
    bench = make_bench()
    gate = hold_work(bench)
    put(bench, 6)
    async with consuming(bench, max_in_hand=2):
        await bench.journal.until("evaluate", times=2)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(60)
                turns += 1

        counting = asyncio.create_task(count_turns())
        entries = len(bench.journal.of("receive"))
        await advance(3600)
        assert entries == len(bench.journal.of("receive"))
        assert 59 <= turns <= 60  # a loop that spins would never let this clock jump
        counting.cancel()
        gate.set()
        await bench.journal.until("delete", times=6)


async def test_consumption_stops_after_failures() -> None:
    """Whatever a ticket ends in, its place is free again."""
    bench = make_bench(max_backoff_seconds=1)
    bench.engine.script = deque(
        [EngineBusy(10, 5, 1.0), DecodeFailed("no"), RuntimeError("a bug"), UNAVAILABLE]
    )
    bench.publisher.faults.once["publish"].append(UNAVAILABLE)
    bench.inbox.faults.once["delete"].append(UNAVAILABLE)
    put(bench, 3)
    async with consuming(bench, max_in_hand=1):
        while bench.inbox.messages:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)
    assert {"t-0", "t-1", "t-2"} == {one.outcome["ticket_id"] for one in bench.publisher.published}


async def test_failed_entries_of_a_batch_delete_are_ignored() -> None:
    """A delete that was refused is known: the redelivery is deleted without new work."""
    bench = make_bench()
    bench.inbox.faults.once["delete"].append(AwsUnavailable("AWS says InternalError"))
    await bench.carry(make_body())
    assert 1 == len(bench.inbox.messages)

    await advance(901)
    [again] = await bench.inbox.receive(1)
    await bench.handler.carry(again)
    assert not bench.inbox.messages
    assert 1 == len(bench.publisher.published)


async def test_the_same_message_twice_in_a_batch_and_nothing_is_deleted() -> None:
    """Entries are named by place, so two receipts of one message do not clash."""
    sqs = FakeSqs()
    there = inbox(sqs)
    twice = [make_delivery(message_id="same", receipt_handle=f"same#{n}") for n in (1, 2)]
    await asyncio.gather(*map(there.delete, twice))

    assert [["0", "1"]] == [[entry["Id"] for entry in call] for call in sqs.calls]


async def test_the_consumer_is_dead_while_the_process_is_healthy() -> None:
    """Health tells the last poll that worked: one that fails does not count."""
    bench = make_bench()
    bench.inbox.faults.always["receive"] = UNAVAILABLE
    metrics.LAST_POLL.set(0)
    before = REGISTRY.get_sample_value("decision_poll_failures_total") or 0.0
    async with consuming(bench):
        await bench.journal.until("receive", times=5)
    assert metrics.last_poll() is None
    assert 5 <= (REGISTRY.get_sample_value("decision_poll_failures_total") or 0.0) - before


async def test_the_receive_count_grows_with_no_handler_called() -> None:
    """Nothing is received that there is no place for, for however long."""
    bench = make_bench()
    gate = hold_work(bench)
    put(bench, 12)
    async with consuming(bench, max_in_hand=2):
        await bench.journal.until("evaluate", times=2)
        await advance(3600)
        counts = [message.receive_count for message in bench.inbox.messages.values()]
        gate.set()
        await bench.journal.until("delete", times=12)
    assert [1] * 2 + [0] * 10 == counts


async def test_a_dead_letter_moves_only_at_the_next_receive() -> None:
    """That is the queue's doing, by its own count: we neither copy nor delete what only fails."""
    bench = make_bench(max_backoff_seconds=1)
    bench.engine.error = DecodeFailed("no")
    bench.inbox.put(make_body())
    for receipt in range(1, 6):
        [delivery] = await bench.inbox.receive(1)
        assert receipt == delivery.receive_count
        await bench.handler.carry(delivery)
        await advance(2)
    assert [] == bench.inbox.dead_letters
    assert ["m-1"] == list(bench.inbox.messages)


async def test_a_pointer_in_an_sns_envelope_is_not_resolved() -> None:
    """The envelope comes off first, then the pointer is followed."""
    body = make_body(ticket_id="t-1")
    documents = FakeDocuments(objects={("papers", "a/b"): (body.encode(), "text/plain")})
    allowed = AllowList((Prefix.parse("s3://papers/a"),))
    bench = make_bench(opener=Opener(100_000, Bookcase(documents, allowed, 200_000)))
    await bench.carry(make_envelope(make_pointer()))

    assert ["t-1"] == [one.outcome["ticket_id"] for one in bench.publisher.published]


async def test_pending_deletes_grow_above_ten_and_then_fail_for_ever() -> None:
    """However many wait, a call has ten; and what failed does not come back with the next."""
    sqs = FakeSqs({"0": ("InternalError", False)})
    there = inbox(sqs)
    deliveries = [make_delivery(receipt_handle=str(number)) for number in range(25)]
    told = await asyncio.gather(*map(there.delete, deliveries), return_exceptions=True)

    assert [10, 10, 5] == list(map(len, sqs.calls))
    assert [AwsUnavailable] + [type(None)] * 24 == list(map(type, told))


async def test_a_blocked_loop_publishes_what_is_no_longer_ours() -> None:
    """A loop that stood still past the visibility finds its leases lost before anything else."""
    bench = make_bench()
    gate = hold_work(bench)
    [delivery] = [await bench.receive(make_body())]
    async with beating(bench.leases):
        carrying = asyncio.create_task(bench.handler.carry(delivery))
        await bench.journal.until("evaluate")
        gate.set()  # the answer is there, and then nothing runs for a minute
        asyncio.get_running_loop().jump(60)  # type: ignore[attr-defined]
        await carrying
    assert not bench.publisher.published
    assert not bench.journal.named("publish", "delete", "release")
    assert 1 == len(bench.inbox.messages)
