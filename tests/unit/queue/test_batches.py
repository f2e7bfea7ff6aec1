"""Batches: what comes together goes together, and each entry learns its own fate."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.unit.queue.bench import now
from tests.virtual_time import advance
from worker.errors import AwsUnavailable, EntryRefused
from worker.queue.batches import Batches


@dataclass
class Wire:
    """Takes batches; refuses the entries it is told to, waits where it is told to."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    refused: dict[str, Exception] = field(default_factory=dict)
    error: Exception | None = None
    gate: asyncio.Event | None = None

    async def send(self, entries: Sequence[str]) -> list[Exception | None]:
        self.calls.append(tuple(entries))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [self.refused.get(entry) for entry in entries]


async def outcomes(batches: Batches[str], entries: Sequence[str]) -> list[BaseException | None]:
    return await asyncio.gather(*map(batches.add, entries), return_exceptions=True)


async def test_a_full_batch_goes_at_once() -> None:
    """Ten entries make one call, without any wait; the eleventh begins the next batch."""
    wire = Wire()
    started_at = now()
    batches = Batches(wire.send)
    ten = [str(number) for number in range(10)]
    await outcomes(batches, ten)
    assert started_at == now()

    await outcomes(batches, [*ten, "11th"])
    assert [tuple(ten), tuple(ten), ("11th",)] == wire.calls


async def test_a_lone_entry_waits_a_moment_only() -> None:
    """What has no company goes alone, after the short time."""
    wire = Wire()
    started_at = now()
    await Batches(wire.send, wait_seconds=0.01).add("lone")

    assert [("lone",)] == wire.calls
    assert pytest.approx(0.01) == now() - started_at


async def test_a_batch_never_has_too_many_bytes() -> None:
    """An entry that would be too much goes with the next; one that is large goes alone."""
    wire = Wire()
    batches = Batches(wire.send, most_bytes=100)
    sizes = {"a": 60, "b": 40, "c": 1, "huge": 500, "d": 5}
    await asyncio.gather(*(batches.add(entry, size) for entry, size in sizes.items()))

    assert [("a", "b"), ("c",), ("huge",), ("d",)] == wire.calls


async def test_each_entry_learns_its_own_fate() -> None:
    """A refused entry harms no other."""
    refusal = EntryRefused("no")
    wire = Wire(refused={"bad": refusal})

    assert [None, refusal, None] == await outcomes(Batches(wire.send), ["a", "bad", "c"])


async def test_a_call_that_fails_is_everybodys() -> None:
    """No entry of it was accepted; the next batch goes as usual."""
    wire = Wire(error=AwsUnavailable("gone"))
    batches = Batches(wire.send)
    assert [wire.error, wire.error] == await outcomes(batches, ["a", "b"])

    wire.error = None
    assert [None] == await outcomes(batches, ["c"])


async def test_a_cancelled_caller_takes_its_entry_back() -> None:
    """Nothing is sent for a lease that was lost while its outcome waited for company."""
    wire = Wire()
    batches = Batches(wire.send, wait_seconds=1)
    lost, kept = (asyncio.create_task(batches.add(entry)) for entry in ("lost", "kept"))
    await asyncio.sleep(0)
    lost.cancel()
    await kept

    assert [("kept",)] == wire.calls


async def test_a_caller_cancelled_under_way_harms_no_neighbour() -> None:
    """The call goes on, and the others learn their fate."""
    wire = Wire(gate=asyncio.Event())
    batches = Batches(wire.send)
    lost, kept = (asyncio.create_task(batches.add(entry)) for entry in ("lost", "kept"))
    await advance(1)
    assert [("lost", "kept")] == wire.calls
    lost.cancel()
    assert wire.gate is not None
    wire.gate.set()
    await kept

    assert lost.cancelled()


async def test_a_loop_that_stood_still_sends_nothing_for_lost_leases() -> None:
    """A deadline that passed while the entry waited for company comes before its call."""
    wire = Wire()
    batches = Batches(wire.send, wait_seconds=1)

    async def add(entry: str, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            await batches.add(entry)

    lost, kept = asyncio.create_task(add("lost", 30)), asyncio.create_task(add("kept", 100))
    await asyncio.sleep(0)
    asyncio.get_running_loop().jump(60)  # type: ignore[attr-defined]
    await kept
    with pytest.raises(TimeoutError):
        await lost

    assert [("kept",)] == wire.calls


async def test_closing_waits_for_what_is_under_way() -> None:
    """A client is not closed under a call."""
    wire = Wire(gate=asyncio.Event())
    batches = Batches(wire.send)
    added = asyncio.create_task(batches.add("a"))
    await advance(1)
    closing = asyncio.create_task(batches.close())
    await advance(1)
    assert not closing.done()
    assert wire.gate is not None
    wire.gate.set()
    await closing
    await added


async def test_nothing_is_sent_for_whoever_left_while_others_went_one_by_one() -> None:
    """A refused batch is split; a caller that was cancelled meanwhile is passed over."""
    wire = Wire(error=AwsUnavailable("invalid"), gate=asyncio.Event())
    batches = Batches(wire.send, is_anothers=lambda _: True)
    kept, lost = (asyncio.create_task(batches.add(entry)) for entry in ("kept", "lost"))
    await advance(1)
    lost.cancel()
    assert wire.gate is not None
    wire.gate.set()
    await asyncio.gather(kept, lost, return_exceptions=True)
    await batches.close()

    assert [("kept", "lost"), ("kept",)] == wire.calls
