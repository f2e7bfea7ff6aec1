"""Receive deliveries, keep at most so many in hand, drain on stop."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from worker import metrics
from worker.errors import AwsUnavailable, AwsUnusable
from worker.lifecycle import Lifecycle
from worker.ports import Delivery, Inbox
from worker.queue.handler import Handler
from worker.queue.lease import Leases
from worker.queue.spans import QueueSpans

_RECEIVE_AT_ONCE = 10  # messages of one SQS receive
_LONGEST_PAUSE_SECONDS = 30.0
# After the drain deadline; what is not released by then comes back when its visibility ends.
_RELEASE_SECONDS = 2.0

_log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class Consumer:
    """The queue face's main loop.

    Attributes:
        max_in_hand: the most deliveries held at once.
        queued_tokens: how many tokens of received tickets wait for the engine.
        max_queued_tokens: while so many wait, no more is received.
        drain_seconds: how long held deliveries may go on after the stop.
        on_change: told how many deliveries are held, whenever that changes.
        spans: tell of each poll.
    """

    inbox: Inbox
    handler: Handler
    leases: Leases
    lifecycle: Lifecycle
    max_in_hand: int
    drain_seconds: float
    queued_tokens: Callable[[], int] = lambda: 0
    max_queued_tokens: int = 1
    on_change: Callable[[int], None] = lambda _: None
    spans: QueueSpans = field(default_factory=QueueSpans)
    _held: dict[asyncio.Task[None], Delivery] = field(default_factory=dict, init=False)
    _failed_polls: int = field(default=0, init=False)

    async def run(self) -> None:
        """Receive until the stop event, then drain."""
        beating = asyncio.create_task(self.leases.beat(), name="heartbeat")
        try:
            while not self.lifecycle.stopping.is_set():
                if await self._has_place():
                    await self._receive()
            await self._drain()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _has_place(self) -> bool:
        """Wait until there is a free place, or until the stop event; say which."""
        while self._is_full():
            stopped = asyncio.create_task(self.lifecycle.stopping.wait())
            try:
                await asyncio.wait({stopped, *self._held}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopped.cancel()
            if self.lifecycle.stopping.is_set():
                return False
        return True

    def _is_full(self) -> bool:
        # With nothing in hand, tokens that wait are callers', who have places of their own.
        return len(self._held) >= self.max_in_hand or (
            bool(self._held)
            and (self.queued_tokens() >= self.max_queued_tokens or self.handler.suspects.holds_up)
        )

    async def _receive(self) -> None:
        # The poll is never cancelled: SQS would hand messages to a caller who is gone. A stop
        # waits for it, and what it still brings is released.
        started_ns = time.time_ns()
        deliveries = await self._poll()
        if self.lifecycle.stopping.is_set():
            await asyncio.gather(*map(self.handler.release_now, deliveries))
            return
        if deliveries:
            with self.spans.receive(deliveries, started_ns):
                for delivery in deliveries:
                    self._begin(delivery)
        self.on_change(len(self._held))
        await asyncio.sleep(0)  # they begin before anybody asks whether there is a place

    def _begin(self, delivery: Delivery) -> None:
        self.handler.groups.join(delivery)
        task = asyncio.create_task(self.handler.carry(delivery), name=delivery.message_id)
        self._held[task] = delivery
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._held[task]
        self.on_change(len(self._held))

    def in_hand(self) -> list[str]:
        """Return the message ids of what is held now."""
        return [delivery.message_id for delivery in self._held.values()]

    async def _poll(self) -> Sequence[Delivery]:
        free = 1 if self.handler.suspects.is_wary else self.max_in_hand - len(self._held)
        try:
            deliveries = await self.inbox.receive(min(free, _RECEIVE_AT_ONCE))
        except AwsUnavailable as error:
            await self._pause(error)
            return ()
        except AwsUnusable as error:
            self.lifecycle.fail(error)
            return ()
        self._failed_polls = 0
        metrics.DELIVERIES_RECEIVED.inc(len(deliveries))
        metrics.LAST_POLL.set(time.time())
        return deliveries

    async def _pause(self, error: AwsUnavailable) -> None:
        """Wait after a failed poll: longer each time, with jitter, not past a stop."""
        self._failed_polls += 1
        metrics.POLL_FAILURES.inc()
        longest = min(_LONGEST_PAUSE_SECONDS, 2.0 ** min(self._failed_polls, 16))
        seconds = random.uniform(longest / 2, longest)  # noqa: S311 - spreads load
        _log.warning("poll_failed", error=str(error), pause_seconds=round(seconds, 1))
        try:
            async with asyncio.timeout(seconds):
                await self.lifecycle.stopping.wait()
        except TimeoutError:
            return

    async def _drain(self) -> None:
        """Let what is held finish while its heartbeats beat; release the rest at the deadline."""
        if not self._held:
            return
        _, late = await asyncio.wait(set(self._held), timeout=self.drain_seconds)
        self.lifecycle.unfinished = len(late)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_RELEASE_SECONDS)
            _log.warning("drain_deadline_passed", released=len(late))
