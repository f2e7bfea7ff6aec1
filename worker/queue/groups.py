"""Keep the order of a FIFO queue's message groups."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from worker.errors import OutOfTurn
from worker.ports import Delivery


@dataclass(slots=True)
class Turn:
    """A delivery's turn in its group; the next one comes only after a finished one."""

    finished: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    before: asyncio.Future[bool] | None
    mine: asyncio.Future[bool]


class Groups:
    """One delivery of a group at a time, groups side by side.

    Args:
        in_order: whether the queue is FIFO; the groups of a standard queue have no order.
    """

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._last: dict[str, asyncio.Future[bool]] = {}
        self._places: dict[Delivery, _Place] = {}

    def join(self, delivery: Delivery) -> None:
        """Take the next place in the group.

        To be called for all deliveries of one receive before any of them begins: what fails at
        once must still hold up those behind it.
        """
        group = delivery.group_id
        if self._in_order and group is not None:
            before = self._last.get(group)
            mine = self._last[group] = asyncio.get_running_loop().create_future()
            self._places[delivery] = _Place(before, mine)

    @asynccontextmanager
    async def turn(self, delivery: Delivery) -> AsyncIterator[Turn]:
        """Wait for the deliveries of the group that joined before.

        Raises:
            OutOfTurn: one of them was not finished, so this one must not be either.
        """
        place = self._places.pop(delivery, None)
        group = delivery.group_id
        if place is None or group is None:
            yield Turn()
            return
        turn = Turn()
        try:
            # Shielded: others wait for the same one.
            if place.before is not None and not await asyncio.shield(place.before):
                raise OutOfTurn("an earlier message of the group was not finished")
            yield turn
        finally:
            place.mine.set_result(turn.finished)
            if self._last.get(group) is place.mine:  # whoever was cancelled first may be last
                del self._last[group]
