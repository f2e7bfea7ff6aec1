"""Carry one delivery from lease to delete, and decide what each failure means."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import structlog

from worker import metrics
from worker.counted import count_answers
from worker.decision.attributes import outcome_attributes
from worker.decision.outcome import Outcome
from worker.decision.ticket import Ticket
from worker.errors import (
    AwsUnavailable,
    AwsUnusable,
    EngineFailed,
    EntryRefused,
    LeaseLost,
    MadeWay,
    OutOfTurn,
    Rejected,
    Retryable,
    WorkerError,
)
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.ports import Delivery, Inbox, Lane, Publisher
from worker.queue.backoff import backoff_seconds
from worker.queue.groups import Groups
from worker.queue.lease import Leases
from worker.queue.opening import Opener
from worker.queue.settled import Settled
from worker.queue.spans import DeliverySpan, QueueSpans, carried_on
from worker.queue.suspects import Suspects
from worker.trace import read_trace
from worker.traced import evaluate_traced

_FINISHED = ("decided", "rejected")

_log = structlog.get_logger()


@dataclass(slots=True)
class _Carried:
    """What is known of a delivery so far.

    Attributes:
        delivery: that is carried.
        span: that tells of it.
        ticket: that it holds, once that is parsed.
    """

    delivery: Delivery
    span: DeliverySpan
    ticket: Ticket | None = None


@dataclass(frozen=True, slots=True)
class Handler:
    """Publishes, then deletes, and only while the lease is held.

    Attributes:
        has_dead_letter_queue: whether rejected deliveries are copied to one.
        on_reject: what becomes of a rejected delivery when there is none.
        max_backoff_seconds: the longest delay before a released delivery returns.
        opener: turns a delivery into its ticket.
        groups: whose turn it is in a FIFO group.
        settled: what this process has done about messages that come again.
        suspects: whose turn it is among those.
        spans: tell of each delivery.
    """

    inbox: Inbox
    publisher: Publisher
    leases: Leases
    evaluator: Evaluator
    lifecycle: Lifecycle
    has_dead_letter_queue: bool
    on_reject: Literal["keep", "publish"]
    max_backoff_seconds: int
    opener: Opener
    groups: Groups
    settled: Settled = field(default_factory=Settled)
    suspects: Suspects = field(default_factory=Suspects)
    spans: QueueSpans = field(default_factory=QueueSpans)

    async def carry(self, delivery: Delivery) -> None:
        """Carry *delivery* to its end; raises nothing but cancellation."""
        started_at = time.monotonic()
        if delivery.sent_at:
            metrics.QUEUE_WAIT_SECONDS.observe(max(0.0, time.time() - delivery.sent_at))
        with (
            structlog.contextvars.bound_contextvars(
                message_id=delivery.message_id, receive_count=delivery.receive_count
            ),
            metrics.DELIVERIES_IN_HAND.track_inprogress(),
            self.spans.delivery(delivery) as span,
        ):
            result = await self._finish(_Carried(delivery, span))
            span.set({"decision.result": result})
            seconds = time.monotonic() - started_at
            metrics.DELIVERIES_FINISHED.labels(result).inc()
            metrics.TICKET_SECONDS.labels("queue").observe(seconds)
            _log.info("delivery_finished", result=result, seconds=round(seconds, 3))

    async def release_now(self, delivery: Delivery) -> None:
        """Give back a delivery that was not begun, or whose work was cut off."""
        with suppress(AwsUnavailable, AwsUnusable):  # else its visibility runs out by itself
            await self.inbox.release(delivery, 0)

    async def _finish(self, carried: _Carried) -> str:
        """Return how the delivery ended: the failure table of docs/running.md, in code."""
        delivery = carried.delivery
        try:
            with carried.span.failing():
                return await self._held(carried)
        except LeaseLost as error:
            _log.warning("lease_lost", reason=str(error))
            return "lost"
        except OutOfTurn:
            # At once: a hidden message would hold up its whole group.
            await self.release_now(delivery)
            return "released"
        except asyncio.CancelledError:
            metrics.DELIVERIES_FINISHED.labels("released").inc()
            await self.release_now(delivery)
            raise
        except (EngineFailed, AwsUnusable) as error:
            self.lifecycle.fail(error)
            await self.release_now(delivery)
            return "released"
        except MadeWay as error:
            try:
                return await self._back_off(delivery, error)
            finally:
                self.suspects.gone(delivery)
        except Retryable as error:
            return await self._back_off(delivery, error)
        except Exception as error:  # noqa: BLE001
            # A bug must not take the other deliveries along; this one ends in the dead letters.
            _log.exception("delivery_failed")
            await self._back_off(delivery, error)
            return "failed"

    async def _held(self, carried: _Carried) -> str:
        delivery = carried.delivery
        async with (
            self.leases.hold(delivery),
            self.groups.turn(delivery) as turn,
            self.suspects.turn(delivery),
        ):
            result = await self._settle(carried)
            turn.finished = result in _FINISHED
            return result

    async def _settle(self, carried: _Carried) -> str:
        delivery = carried.delivery
        if result := self.settled.result(delivery.message_id):
            carried.span.begin()
            await self._delete(delivery)
            return result
        try:
            with metrics.STAGE_SECONDS.labels("open").time():
                ticket = await self._open(carried)
            # What was received before may have ended a process: it must not drag others along.
            alone = delivery.receive_count > 1
            with metrics.STAGE_SECONDS.labels("evaluate").time():
                outcome = await evaluate_traced(
                    self.spans.tracer, self.evaluator, ticket, Lane.BATCH, alone=alone
                )
            await self._publish(outcome, carried)
        except Rejected as fault:
            return await self._reject(carried, fault)
        self.settled.publish(delivery.message_id, "decided")
        count_answers(outcome)
        self.evaluator.follow(outcome)
        with metrics.STAGE_SECONDS.labels("delete").time():
            await self._delete(delivery)
        return "decided"

    async def _open(self, carried: _Carried) -> Ticket:
        delivery = carried.delivery
        found = await self.opener.unwrap(delivery)
        carried.span.begin(read_trace(found.attributes, delivery.trace_header))
        if trace_id := carried.span.trace_id:
            structlog.contextvars.bind_contextvars(trace_id=trace_id)
        carried.ticket = ticket = await self.opener.ticket(delivery, found)
        structlog.contextvars.bind_contextvars(ticket_id=ticket.ticket_id)
        carried.span.set({"decision.ticket_id": ticket.ticket_id})
        return await self.opener.with_state(ticket)

    async def _reject(self, carried: _Carried, fault: Rejected) -> str:
        delivery, ticket = carried.delivery, carried.ticket
        carried.span.fail(fault)
        metrics.REJECTIONS.labels(fault.code).inc()
        _log.warning(
            "ticket_rejected", code=fault.code, where=fault.place_for_log(), error=fault.message
        )
        moved = self.settled.is_moved(delivery.message_id)
        if self.has_dead_letter_queue and not moved:
            reason = {"code": fault.code, "where": fault.where, "message": fault.message}
            try:
                self.leases.check(delivery)
                await self.inbox.dead_letter(delivery, reason)
            except AwsUnusable as error:
                # One bad ticket must not stop the good ones: it stays until this is mended.
                _log.error("dead_letter_refused", error=str(error))
                await self._back_off(delivery, fault)
                return "kept"
            self.settled.move(delivery.message_id)
        elif not moved and self.on_reject == "keep":
            await self._back_off(delivery, fault)
            return "kept"
        ticket_id = ticket.ticket_id if ticket else delivery.message_id
        outcome = self.evaluator.reject(
            fault, ticket_id=ticket_id, body=delivery.body, ticket=ticket
        )
        if not await self._publish_rejection(outcome, carried) and not self.has_dead_letter_queue:
            await self._back_off(delivery, fault)
            return "kept"
        self.settled.publish(delivery.message_id, "rejected")
        await self._delete(delivery)
        return "rejected"

    async def _publish_rejection(self, outcome: Outcome, carried: _Carried) -> bool:
        """Publish a rejection, without its metadata if it is too large; return whether it went."""
        for rejection in (outcome, outcome.model_copy(update={"metadata": {}})):
            try:
                await self._publish(rejection, carried)
            except Rejected as fault:
                _log.warning("rejection_refused", code=fault.code, error=fault.message)
            else:
                return True
        return False

    async def _publish(self, outcome: Outcome, carried: _Carried) -> None:
        self.leases.check(carried.delivery)
        # What a log line and an outcome have in common.
        structlog.contextvars.bind_contextvars(outcome_id=outcome.outcome_id)
        with (
            metrics.STAGE_SECONDS.labels("publish").time(),
            self.spans.publish(outcome.outcome_id, outcome.status) as span,
        ):
            await self.publisher.publish(
                outcome.as_json(),
                outcome_attributes(outcome) | carried_on(span, carried.span.told).attributes(),
                outcome_id=outcome.outcome_id,
                group_id=carried.delivery.group_id,
            )

    async def _delete(self, delivery: Delivery) -> None:
        self.leases.check(delivery)
        try:
            with self.spans.delete(delivery):
                await self.inbox.delete(delivery)
        except EntryRefused as error:
            # What refuses a delete refuses a release as well: whoever has the message now, or
            # this process once it comes again, deletes it by its outcome, which is out.
            _log.error("delete_refused", error=str(error))
            raise LeaseLost("the delete was refused") from error

    async def _back_off(self, delivery: Delivery, error: Exception) -> str:
        """Release with exponential backoff and full jitter by receive count."""
        delay = backoff_seconds(delivery.receive_count, self.max_backoff_seconds)
        reason = error.code if isinstance(error, Rejected) else type(error).__name__
        metrics.RELEASES.labels(
            type(error).__name__ if isinstance(error, WorkerError) else "bug"
        ).inc()
        if isinstance(error, Retryable):
            reason = str(error)
        _log.warning("delivery_released", delay_seconds=delay, reason=reason)
        with suppress(AwsUnavailable, AwsUnusable):  # else its visibility runs out by itself
            await self.inbox.release(delivery, delay)
        return "released"
