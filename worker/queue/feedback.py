"""Take what people decided from the feedback queue."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from worker import metrics
from worker.decision.feedback import parse_feedback
from worker.errors import AwsUnavailable, AwsUnusable, EntryRefused, Rejected
from worker.lifecycle import Lifecycle
from worker.overrides import Overrides
from worker.ports import Delivery, Inbox
from worker.queue.backoff import backoff_seconds
from worker.queue.envelope import unwrap

CONNECTIONS = 12

_RECEIVE_AT_ONCE = 10  # messages of one SQS receive
_LONGEST_PAUSE_SECONDS = 30.0
_MAX_BACKOFF_SECONDS = 900

_log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class FeedbackConsumer:
    """Counts each message once it is read, then deletes it.

    Attributes:
        inbox: of the feedback queue.
        overrides: counts.
        lifecycle: says when to stop.
        has_dead_letter_queue: whether what is no feedback is moved; else it is given back.
    """

    inbox: Inbox
    overrides: Overrides
    lifecycle: Lifecycle
    has_dead_letter_queue: bool
    _failed_polls: int = field(default=0, init=False)

    async def run(self) -> None:
        """Receive until the stop event; the poll that runs then is waited for."""
        while not self.lifecycle.stopping.is_set():
            await asyncio.gather(*map(self._take, await self._poll()))

    async def _poll(self) -> Sequence[Delivery]:
        try:
            deliveries = await self.inbox.receive(_RECEIVE_AT_ONCE)
        except AwsUnavailable as error:
            await self._pause(error)
            return ()
        except AwsUnusable as error:
            self.lifecycle.fail(error)
            return ()
        self._failed_polls = 0
        return deliveries

    async def _take(self, delivery: Delivery) -> None:
        """Take one message; whatever fails comes again when its visibility ends."""
        result = "taken"
        try:
            feedback = parse_feedback(unwrap(delivery.body).body)
            told = self.overrides.take(feedback)
            _log.info("feedback_counted", ticket_id=feedback.ticket_id, result=told)
            await self.inbox.delete(delivery)
        except Rejected as fault:
            result = "malformed"
            await self._refuse(delivery, fault)
        except (AwsUnavailable, AwsUnusable, EntryRefused) as error:
            result = "failed"
            _log.warning("feedback_kept", error=str(error))
        metrics.FEEDBACK_MESSAGES.labels(result).inc()

    async def _refuse(self, delivery: Delivery, fault: Rejected) -> None:
        _log.warning("feedback_refused", code=fault.code, error=fault.message)
        reason = {"code": fault.code, "where": fault.where, "message": fault.message}
        try:
            if self.has_dead_letter_queue:
                await self.inbox.dead_letter(delivery, reason)
                await self.inbox.delete(delivery)
            else:
                delay = backoff_seconds(delivery.receive_count, _MAX_BACKOFF_SECONDS)
                await self.inbox.release(delivery, delay)
        except (AwsUnavailable, AwsUnusable, EntryRefused) as error:
            _log.warning("feedback_kept", error=str(error))

    async def _pause(self, error: AwsUnavailable) -> None:
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
