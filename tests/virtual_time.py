"""An event loop whose clock jumps to the next timer as soon as nothing else can run.

Thirty seconds of visibility pass in no time, and always in the same order. Threads and sockets are
not waited for: code under test must live on the loop alone.
"""

import asyncio
import selectors
from typing import Any

_A_DAY_SECONDS = 86_400.0


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop on a clock of its own, which begins at 1000 seconds."""

    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds
        if self._now > 1000.0 + _A_DAY_SECONDS:
            raise AssertionError("a day has passed, and what the test waits for has not happened")


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(0)
        if not events and timeout is None:
            raise AssertionError("everything waits, and no timer is set: this would hang for ever")
        if not events and timeout:
            self._loop.jump(timeout)
        return events


async def advance(seconds: float) -> None:
    """Move the clock on, running everything that is due meanwhile."""
    await asyncio.sleep(seconds)
