"""Carry what may have ended a process one at a time, apart from others of its kind."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from worker.errors import MadeWay
from worker.ports import Delivery

_SUSPECT_RECEIPTS = 2
_APART_RECEIPTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    delivery: Delivery
    turn: asyncio.Future[None]


class Suspects:
    """Whose turn it is among deliveries that were received before: one, up to its delete.

    What waits behind a ticket that kills the process is received again together with it, so it
    would stand behind it each time until the queue gave both up. A delivery that has failed
    twice is therefore carried only once those that wait have made way.
    """

    def __init__(self) -> None:
        self._carried: Delivery | None = None
        self._line: deque[_Waiting] = deque()
        self._leaving: set[Delivery] = set()
        self._gone = asyncio.Event()
        self._is_wary = False

    @asynccontextmanager
    async def turn(self, delivery: Delivery) -> AsyncIterator[None]:
        """Have the turn while the body runs; at once for what was never received before.

        Raises:
            MadeWay: this delivery is to go back to the queue, and *gone* to be called then.
        """
        self._is_wary = _must_be_apart(delivery)
        if delivery.receive_count < _SUSPECT_RECEIPTS:
            yield
            return
        await self._come(delivery)
        try:
            if _must_be_apart(delivery):
                await asyncio.sleep(0)  # whatever came with it has its say first
                await self._until_gone()
            yield
        finally:
            self._next()

    @property
    def holds_up(self) -> bool:
        """Whether nothing is to be received: whatever came would have to make way."""
        return self._carried is not None and _must_be_apart(self._carried)

    @property
    def is_wary(self) -> bool:
        """Whether to receive one at a time: of several like the last, all but one make way.

        Each way made costs a delivery one of the receives that the queue allows it.
        """
        return self._is_wary

    def gone(self, delivery: Delivery) -> None:
        """Note that a delivery that made way is no longer in hand."""
        self._leaving.discard(delivery)
        self._gone.set()

    async def _until_gone(self) -> None:
        while self._leaving:
            self._gone.clear()
            await self._gone.wait()

    async def _come(self, delivery: Delivery) -> None:
        if self._carried is None:
            self._carried = delivery
            return
        if _must_be_apart(self._carried):
            self._leaving.add(delivery)
            raise MadeWay
        waiting = _Waiting(delivery, asyncio.get_running_loop().create_future())
        self._line.append(waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            self.gone(delivery)  # it may have been told to make way in the same turn of the loop
            if waiting in self._line:
                self._line.remove(waiting)
            elif self._carried is delivery:  # had its turn and was cancelled at once
                self._next()
            raise

    def _next(self) -> None:
        self._carried = None
        while self._line and self._carried is None:
            first = self._line.popleft()
            if not first.turn.done():
                self._carried = first.delivery
                first.turn.set_result(None)
        if self._carried is not None and _must_be_apart(self._carried):
            for other in self._line:
                if not other.turn.done():
                    self._leaving.add(other.delivery)
                    other.turn.set_exception(MadeWay())
            self._line.clear()


def _must_be_apart(delivery: Delivery) -> bool:
    return delivery.receive_count >= _APART_RECEIPTS
