"""Hold deliveries: extend them while they are held, cancel their work when they are lost."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from worker import metrics
from worker.errors import LeaseLost, WorkerError
from worker.ports import Delivery, Inbox

_EXTEND_AT_ONCE = 10  # entries of one SQS batch call
_MOST_SECONDS = 43_200  # from a receive to the end of its last extension: SQS refuses more

_log = structlog.get_logger()


class Leases:
    """All deliveries that are held now, and the heartbeat that extends them.

    A lease is a timeout that each accepted extension pushes back. It counts from when the receive
    or the extension was *asked for*: the queue's clock starts no earlier.

    Args:
        inbox: where extensions are sent.
        visibility_seconds: how long one extension holds.
        heartbeat_seconds: between two extensions.
    """

    def __init__(self, inbox: Inbox, *, visibility_seconds: int, heartbeat_seconds: float) -> None:
        self._inbox = inbox
        self._visibility_seconds = visibility_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._held: dict[Delivery, asyncio.Timeout] = {}

    @asynccontextmanager
    async def hold(self, delivery: Delivery) -> AsyncIterator[None]:
        """Hold *delivery* while the body runs; the body is cancelled when the lease is lost.

        Raises:
            LeaseLost: the visibility ran out, or an extension was definitely refused.
        """
        deadline = asyncio.timeout_at(delivery.asked_at + self._visibility_seconds)
        try:
            async with deadline:
                self._held[delivery] = deadline
                try:
                    yield
                finally:
                    del self._held[delivery]
        except TimeoutError:
            if deadline.expired():
                raise _lost(delivery) from None
            raise

    def check(self, delivery: Delivery) -> None:
        """See that a held delivery is still ours, before something is done that cannot be undone.

        A loop that stood still runs first what became ready meanwhile, and only then the timers
        that are overdue.

        Raises:
            LeaseLost: its time has passed, though nobody has been told yet.
        """
        ends_at = self._held[delivery].when()
        if ends_at is not None and asyncio.get_running_loop().time() >= ends_at:
            raise _lost(delivery)

    def oldest_seconds(self) -> float:
        """Return how long ago the oldest delivery that is held was asked for; 0 with none."""
        asked_at = min((delivery.asked_at for delivery in self._held), default=None)
        # The event loop's clock, readable from any thread that scrapes.
        return 0.0 if asked_at is None else max(0.0, time.monotonic() - asked_at)

    async def beat(self) -> None:
        """Extend what is held, again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while True:
            next_at += self._heartbeat_seconds  # whatever the extensions take
            await asyncio.sleep(next_at - loop.time())
            await self._extend_all()

    async def _extend_all(self) -> None:
        now = asyncio.get_running_loop().time()
        by_seconds: dict[int, list[Delivery]] = {}
        for delivery in self._held:
            # An extension past the ceiling is refused as a whole, not cut.
            seconds = min(self._visibility_seconds, math.floor(_ceiling(delivery) - now - 1))
            if seconds > 0:
                by_seconds.setdefault(seconds, []).append(delivery)
        # Side by side, so that one slow call does not make the others late.
        await asyncio.gather(
            *(
                self._extend(held[i : i + _EXTEND_AT_ONCE], seconds)
                for seconds, held in by_seconds.items()
                for i in range(0, len(held), _EXTEND_AT_ONCE)
            )
        )

    async def _extend(self, deliveries: list[Delivery], seconds: int) -> None:
        asked_at = asyncio.get_running_loop().time()
        try:
            # A call that hangs must not make the next beat late.
            async with asyncio.timeout(self._heartbeat_seconds):
                refused = set(await self._inbox.extend(deliveries, seconds))
        except Exception as error:  # noqa: BLE001 - a heart that stops loses every delivery
            # Survived: the leases still run until their deadlines.
            reason = str(error) if isinstance(error, WorkerError) else type(error).__name__
            metrics.LEASE_EXTENSIONS.labels("failed").inc(len(deliveries))
            _log.warning("extension_failed", error=reason, deliveries=len(deliveries))
            return
        for delivery in deliveries:
            lost = delivery in refused
            metrics.LEASE_EXTENSIONS.labels("refused" if lost else "extended").inc()
            deadline = self._held.get(delivery)
            if deadline is not None and not deadline.expired():
                # A deadline that has come cancels the body at the loop's next turn.
                deadline.reschedule(asked_at if lost else asked_at + seconds)


def _lost(delivery: Delivery) -> LeaseLost:
    at_ceiling = asyncio.get_running_loop().time() >= _ceiling(delivery) - 1
    return LeaseLost(
        "SQS holds a delivery for 12 hours at most"
        if at_ceiling
        else "the delivery's visibility ran out"
    )


def _ceiling(delivery: Delivery) -> float:
    return delivery.asked_at + _MOST_SECONDS
