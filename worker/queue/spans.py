"""The queue face's spans, named as OpenTelemetry's messaging conventions do.

Source: https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/ and its pages on SQS
and SNS, which spell their systems differently. What has no name there is named ``decision.``.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from worker.ports import Delivery
from worker.trace import NO_TRACE, Trace, read_trace
from worker.tracing import NO_TRACER, Attributes, Kind, Span, Tracer, fail_with

_SQS, _SNS = "aws_sqs", "aws.sns"


@dataclass(frozen=True, slots=True)
class QueueSpans:
    """Makes the spans of one queue and one topic.

    Attributes:
        tracer: keeps them.
        queue_url: where tickets come from.
        topic_arn: where outcomes go.
    """

    tracer: Tracer = NO_TRACER
    queue_url: str = ""
    topic_arn: str = ""

    def receive(
        self, deliveries: Sequence[Delivery], started_ns: int
    ) -> AbstractContextManager[Span]:
        """Return the span of a poll that brought *deliveries*, linked to where each belongs.

        Args:
            deliveries: at least one: a poll that brings nothing is not worth a span.
            started_ns: when the poll was sent, Unix time.
        """
        return self.tracer.span(
            f"receive {self._queue}",
            Kind.CLIENT,
            self._sqs("receive", "receive") | {"messaging.batch.message_count": len(deliveries)},
            links=[told for told in map(_told, deliveries) if told.parent],
            started_ns=started_ns,
        )

    @contextmanager
    def delivery(self, delivery: Delivery) -> Iterator["DeliverySpan"]:
        """Return the span of one delivery, from its receipt to its end."""
        attributes = self._sqs("process", "process") | {
            "messaging.message.id": delivery.message_id,
            "decision.receive_count": delivery.receive_count,
        }
        with ExitStack() as ends:
            yield (
                found := DeliverySpan(
                    self.tracer, f"process {self._queue}", attributes, ends, _told(delivery)
                )
            )
            found.begin()

    def publish(self, outcome_id: str, status: str) -> AbstractContextManager[Span]:
        """Return the span in which an outcome goes to the topic."""
        topic = self.topic_arn.rpartition(":")[2]
        return self.tracer.span(
            f"publish {topic}",
            Kind.PRODUCER,
            {
                "messaging.system": _SNS,
                "messaging.operation.name": "publish",
                "messaging.operation.type": "send",
                "messaging.destination.name": topic,
                "aws.sns.topic.arn": self.topic_arn,
                "decision.outcome_id": outcome_id,
                "decision.status": status,
            },
        )

    def delete(self, delivery: Delivery) -> AbstractContextManager[Span]:
        """Return the span in which a finished delivery leaves the queue."""
        attributes = self._sqs("delete", "settle") | {"messaging.message.id": delivery.message_id}
        return self.tracer.span(f"delete {self._queue}", Kind.CLIENT, attributes)

    @property
    def _queue(self) -> str:
        return self.queue_url.rpartition("/")[2]

    def _sqs(self, name: str, kind: str) -> dict[str, str | int | float | bool]:
        return {
            "messaging.system": _SQS,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.destination.name": self._queue,
            "aws.sqs.queue.url": self.queue_url,
        }


@dataclass(slots=True)
class DeliverySpan:
    """A span that begins in hindsight: an envelope must be opened to see which trace it is of.

    Attributes:
        told: the trace that the delivery belongs to, as far as is known.
    """

    _tracer: Tracer
    _name: str
    _attributes: Attributes
    _ends: ExitStack
    told: Trace
    _span: Span | None = None
    _started_ns: int = field(default_factory=time.time_ns)

    def begin(self, told: Trace | None = None) -> None:
        """Begin, unless it has begun, as a part of the trace that was *told*."""
        if self._span is not None:
            return
        self.told = told or self.told
        self._span = self._ends.enter_context(
            self._tracer.span(
                self._name,
                Kind.CONSUMER,
                self._attributes,
                parent=self.told,
                started_ns=self._started_ns,
            )
        )

    @property
    def trace_id(self) -> str | None:
        """The trace's id, for logs: ours when spans are kept, else the sender's."""
        kept = NO_TRACE if self._span is None else self._span.trace
        return (kept or self.told).trace_id

    def fail(self, error: BaseException) -> None:
        """Say that *error* ended the delivery."""
        self.begin()
        if self._span is not None:
            fail_with(self._span, error)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Notice what ends the body, and let it pass."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        self.begin()
        if self._span is not None:
            self._span.set(attributes)


def carried_on(span: Span, told: Trace) -> Trace:
    """Return what an outcome carries: the trace as *span* continues it, or as it was *told*."""
    return span.trace or told


def _told(delivery: Delivery) -> Trace:
    return read_trace(delivery.attributes, delivery.trace_header)
