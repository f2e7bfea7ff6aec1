"""The gate: side by side, or alone; nobody starves and no place leaks."""

import asyncio

import pytest

from worker.errors import DeadlinePassed
from worker.gate import Gate


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_that_is_alone_waits_and_is_waited_for() -> None:
    """Those inside end first, and those who come later wait, the caller before the others."""
    gate, order = Gate(), []
    leave = {name: asyncio.Event() for name in ("first", "alone", "later", "caller")}

    async def enter(name: str) -> None:
        async with gate.enter(alone=name == "alone", ahead=name == "caller"):
            order.append(name)
            await leave[name].wait()

    tasks = []
    for name in leave:
        tasks.append(asyncio.create_task(enter(name)))
        await turns()
    assert ["first"] == order
    leave["first"].set()
    await turns()
    assert ["first", "alone"] == order
    leave["alone"].set()
    await turns()
    assert ["first", "alone", "caller", "later"] == order
    for event in leave.values():
        event.set()
    await asyncio.gather(*tasks)


async def test_who_gives_up_leaves_no_place_taken() -> None:
    """A cancelled wait for being alone lets those behind it in."""
    gate = Gate()

    async def enter(*, alone: bool) -> None:
        async with gate.enter(alone=alone):
            pass

    async with gate.enter():
        waiting = asyncio.create_task(enter(alone=True))
        await turns()
        behind = asyncio.create_task(enter(alone=False))
        await turns()
        assert not behind.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await behind
    await enter(alone=True)


async def test_a_deadline_counts_at_the_gate() -> None:
    """A caller does not wait past its deadline for one that is alone."""
    gate = Gate()
    async with gate.enter(alone=True):
        with pytest.raises(DeadlinePassed):
            async with gate.enter(deadline=asyncio.get_running_loop().time()):
                raise AssertionError("inside")


async def test_who_is_cancelled_when_admitted_gives_the_place_back() -> None:
    """A cancellation in the very turn of the admission leaks no place."""
    gate = Gate()

    async def enter() -> None:
        async with gate.enter(alone=True):
            raise AssertionError("inside")

    async with gate.enter():
        waiting = asyncio.create_task(enter())
        await turns()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    async with asyncio.timeout(5), gate.enter(alone=True):
        assert waiting.cancelled()
