"""Let evaluations run side by side, or one alone."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from worker.errors import DeadlinePassed


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    turn: asyncio.Future[None]
    alone: bool
    ahead: bool


class Gate:
    """Who wants to be alone waits for those inside; whoever comes meanwhile waits for it.

    Neither starves: one that goes ahead passes all who wait but the first, so it waits for at most
    one that is alone, and the first is passed by nobody.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._alone = False
        self._line: deque[_Waiting] = deque()

    @asynccontextmanager
    async def enter(
        self, *, alone: bool = False, ahead: bool = False, deadline: float | None = None
    ) -> AsyncIterator[None]:
        """Be inside while the body runs.

        Args:
            alone: with nobody else inside.
            ahead: pass those who wait, but the first.
            deadline: event-loop time after which entering is useless.

        Raises:
            DeadlinePassed: it passed at the gate.
        """
        waiting = asyncio.timeout_at(deadline)
        try:
            async with waiting:
                await self._come_in(alone, ahead)
        except TimeoutError:
            raise DeadlinePassed("the deadline passed while an evaluation was alone") from None
        try:
            yield
        finally:
            self._leave()

    async def _come_in(self, alone: bool, ahead: bool) -> None:
        if not self._line and self._fits(alone):
            self._take(alone)
            return
        waiting = _Waiting(asyncio.get_running_loop().create_future(), alone, ahead)
        self._line.insert(self._place() if ahead else len(self._line), waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._line:
                self._line.remove(waiting)
                self._admit()
            else:  # admitted and cancelled in the same turn of the loop
                self._leave()
            raise

    def _place(self) -> int:
        passed = (i for i, other in enumerate(self._line) if i > 0 and not other.ahead)
        return next(passed, len(self._line))

    def _fits(self, alone: bool) -> bool:
        return self._inside == 0 if alone else not self._alone

    def _take(self, alone: bool) -> None:
        self._inside += 1
        self._alone = alone

    def _leave(self) -> None:
        self._inside -= 1
        self._alone = False
        self._admit()

    def _admit(self) -> None:
        while self._line and self._fits(self._line[0].alone):
            first = self._line.popleft()
            self._take(first.alone)
            if not first.turn.done():
                first.turn.set_result(None)
