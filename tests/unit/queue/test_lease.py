"""Leases: a delivery is ours while we extend it, and its work ends when it is not."""

import asyncio

import pytest

from tests.factories import make_delivery
from tests.fakes import FakeInbox
from tests.unit.queue.bench import beating, make_leases, now
from tests.virtual_time import advance
from worker.errors import AwsUnavailable, AwsUnusable, LeaseLost
from worker.ports import Delivery
from worker.queue.lease import Leases

UNAVAILABLE = AwsUnavailable("throttled")


async def receive(inbox: FakeInbox, count: int = 1) -> list[Delivery]:
    for _ in range(count):
        inbox.put("body")
    deliveries: list[Delivery] = []
    while len(deliveries) < count:
        deliveries += await inbox.receive(min(10, count - len(deliveries)))
    return deliveries


async def test_heartbeats_hold_a_delivery() -> None:
    """Work may last much longer than one visibility: nobody else receives the message."""
    inbox = FakeInbox()
    leases = make_leases(inbox)
    [delivery] = await receive(inbox)
    async with beating(leases), leases.hold(delivery):
        await advance(300)
        await inbox.delete(delivery)

    assert not inbox.messages
    assert ("extend", ("m-1",), 30) == inbox.journal.of("extend")[0]


async def test_without_extensions_the_lease_is_lost() -> None:
    """When the visibility runs out, the body is cancelled at that very moment."""
    inbox = FakeInbox()
    leases = make_leases(inbox)
    [delivery] = await receive(inbox)
    with pytest.raises(LeaseLost):
        async with leases.hold(delivery):
            await advance(300)

    assert delivery.asked_at + 30 == now()


async def test_a_refused_extension_cancels_the_body() -> None:
    """A definite refusal means that the message is someone else's: the work ends at once."""
    inbox = FakeInbox()
    leases = make_leases(inbox)
    mine, stolen = await receive(inbox, 2)
    inbox.hand_to_another(stolen.message_id)

    async def lose() -> None:
        with pytest.raises(LeaseLost):
            async with leases.hold(stolen):
                await advance(300)
        assert pytest.approx(1010) == now()

    async with beating(leases), leases.hold(mine):
        await lose()
        await advance(100)


async def test_a_failed_extension_is_survived() -> None:
    """A transport fault alone loses nothing: the next heartbeat tries again."""
    inbox = FakeInbox()
    inbox.faults.once["extend"] += [UNAVAILABLE, AwsUnusable("denied")]
    [delivery] = await receive(inbox)
    # The beats after 9 and 18 seconds fail, the one after 27 comes in time.
    leases = Leases(inbox, visibility_seconds=30, heartbeat_seconds=9.0)
    async with beating(leases), leases.hold(delivery):
        await advance(100)


async def test_when_all_extensions_fail_the_deadline_decides() -> None:
    """Without a single accepted extension the lease ends when its visibility does."""
    inbox = FakeInbox()
    inbox.faults.always["extend"] = UNAVAILABLE
    leases = make_leases(inbox)
    [delivery] = await receive(inbox)
    async with beating(leases):
        with pytest.raises(LeaseLost):
            async with leases.hold(delivery):
                await advance(300)

    assert delivery.asked_at + 30 == now()


async def test_a_lease_counts_from_when_the_receive_was_asked_for() -> None:
    """The queue's clock may have started when the receive was sent, so ours does."""
    leases = make_leases(FakeInbox())
    with pytest.raises(LeaseLost):
        async with leases.hold(make_delivery(asked_at=now() - 20)):
            await advance(300)

    assert pytest.approx(1010) == now()


async def test_a_lease_that_is_over_is_lost_at_the_first_wait() -> None:
    """A delivery that took longer than its visibility to arrive is not worked on."""
    leases = make_leases(FakeInbox())
    with pytest.raises(LeaseLost):
        async with leases.hold(make_delivery(asked_at=now() - 31)):
            await advance(0.001)

    assert 1000 == now()


async def test_an_extension_counts_from_when_it_was_asked_for() -> None:
    """A slow answer does not make the lease longer than the queue may hold it."""
    inbox = FakeInbox()
    inbox.faults.gates["extend"] = asyncio.Event()
    leases = make_leases(inbox)
    [delivery] = await receive(inbox)

    async def answer_late() -> None:
        await inbox.journal.until("extend")
        await advance(5)
        inbox.faults.gates["extend"].set()
        await advance(1)
        inbox.faults.always["extend"] = UNAVAILABLE

    answering = asyncio.create_task(answer_late())
    async with beating(leases):
        with pytest.raises(LeaseLost):
            async with leases.hold(delivery):
                await advance(300)
    await answering

    assert pytest.approx(1040) == now()


async def test_an_answer_after_the_deadline_brings_nothing_back() -> None:
    """An extension that is accepted too late leaves the lease lost, and the heart beating."""
    inbox = FakeInbox()
    inbox.faults.gates["extend"] = asyncio.Event()
    leases = make_leases(inbox)
    first, second = await receive(inbox, 2)
    async with beating(leases):
        with pytest.raises(LeaseLost):
            async with leases.hold(first):
                await advance(300)
        inbox.faults.gates["extend"].set()
        inbox.hand_to_another(second.message_id)
        message = inbox.messages[second.message_id]
        held = make_delivery(
            message_id=second.message_id, receipt_handle=message.receipt_handle, asked_at=now()
        )
        async with leases.hold(held):
            await advance(100)


async def test_the_bodys_own_timeout_is_not_a_lost_lease() -> None:
    """A TimeoutError of the work itself passes through as what it is."""
    leases = make_leases(FakeInbox())
    with pytest.raises(TimeoutError, match="mine"):
        async with leases.hold(make_delivery(asked_at=now())):
            raise TimeoutError("mine")
    with pytest.raises(TimeoutError):
        async with leases.hold(make_delivery(asked_at=now())), asyncio.timeout(1):
            await advance(300)


async def test_a_cancellation_from_outside_is_not_a_lost_lease() -> None:
    """Cancellation is never swallowed, nor taken for a lost lease."""
    leases = make_leases(FakeInbox())
    delivery = make_delivery(asked_at=now())

    async def hold() -> None:
        async with leases.hold(delivery):
            await advance(20)

    task = asyncio.create_task(hold())
    await advance(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_extensions_go_in_batches_of_ten() -> None:
    """One call extends up to ten deliveries; all that are held are extended at every beat."""
    inbox = FakeInbox()
    leases = make_leases(inbox)
    deliveries = await receive(inbox, 25)

    async def hold(delivery: Delivery) -> None:
        async with leases.hold(delivery):
            await advance(15)

    async with beating(leases):
        await asyncio.gather(*map(hold, deliveries))

    batches = [ids for _, ids, _ in inbox.journal.of("extend")]
    assert [10, 10, 5] == list(map(len, batches))
    assert {delivery.message_id for delivery in deliveries} == {i for ids in batches for i in ids}


async def test_what_is_finished_is_not_extended() -> None:
    """After its end a delivery is left alone, however it ended."""
    inbox = FakeInbox()
    leases = make_leases(inbox)
    first, second = await receive(inbox, 2)
    async with beating(leases):
        async with leases.hold(first):
            await advance(1)
        with pytest.raises(ZeroDivisionError):
            async with leases.hold(second):
                raise ZeroDivisionError
        await advance(60)

    assert [] == inbox.journal.of("extend")


async def test_a_bug_does_not_stop_the_heart() -> None:
    """An unexpected error of one extension must not lose every delivery from then on."""
    inbox = FakeInbox()
    inbox.faults.once["extend"].append(KeyError("Id"))
    leases = make_leases(inbox)
    [delivery] = await receive(inbox)
    async with beating(leases), leases.hold(delivery):
        await advance(100)


async def test_a_call_that_hangs_does_not_lose_the_others() -> None:
    """Extensions go out in tens, side by side; one that is never answered harms only its own."""
    inbox = FakeInbox()
    leases = make_leases(inbox)
    held = await receive(inbox, 2)
    hung = asyncio.Event()
    inbox.faults.gates["extend"] = hung

    async def hold(delivery: Delivery) -> None:
        async with leases.hold(delivery):
            await advance(100)

    async with beating(leases):
        holding = [asyncio.create_task(hold(delivery)) for delivery in held]
        await advance(15)  # the first beat hangs
        del inbox.faults.gates["extend"]
        await asyncio.gather(*holding)
    hung.set()

    assert len(inbox.journal.of("extend")) >= 5
