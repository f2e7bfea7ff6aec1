"""Open every resource in order, wire the parts, close them in reverse; the only place that does."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import structlog

from worker import metrics
from worker.brain import Brain, check_model, open_brain
from worker.errors import UsageError
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.otel.extra import check_extra
from worker.ports import Publisher
from worker.queue.aws import Connection
from worker.queue.consumer import Consumer
from worker.queue.feedback import CONNECTIONS as FEEDBACK_CONNECTIONS
from worker.queue.feedback import FeedbackConsumer
from worker.queue.groups import Groups
from worker.queue.handler import Handler
from worker.queue.lease import Leases
from worker.queue.locations import AllowList, Prefix
from worker.queue.offload import OffloadingPublisher
from worker.queue.opening import Bookcase, Opener
from worker.queue.protection import open_protection
from worker.queue.s3 import open_documents
from worker.queue.sns import open_publisher
from worker.queue.spans import QueueSpans
from worker.queue.sqs import SqsInbox, open_inbox
from worker.settings import Settings, ecs_agent_url, otlp_protocol, under_sagemaker
from worker.sidecar.keys import Keys
from worker.sidecar.monitoring import open_monitoring
from worker.sidecar.probes import Probes
from worker.sidecar.server import Sidecar, SidecarOptions
from worker.tracing import NO_TRACER, Tracer

_log = structlog.get_logger()


OpenBrain = Callable[[Settings], AbstractAsyncContextManager[Brain]]


async def run_faces(
    settings: Settings,
    lifecycle: Lifecycle,
    aws: Connection | None,
    open_brain: OpenBrain = open_brain,
) -> None:
    """Run the queue face and the sidecar, as far as they are configured, until the stop event.

    Args:
        settings: as checked.
        lifecycle: says when to stop, and is told what failed.
        aws: how AWS is reached; None runs the sidecar alone.
        open_brain: opens the model.

    Raises:
        WorkerError: a resource cannot be opened; nothing has been received.
    """
    check_model(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(lifecycle.hangups())
        tracer = await _open_tracer(stack, settings, lifecycle)
        sidecar: Sidecar | None = None
        if settings.port is not None:
            # Bound first: the platform asks for health while the model still loads.
            sidecar = await _open_sidecar(stack, settings, lifecycle, tracer)
        probes = await _open_probes(stack, settings, lifecycle, sidecar)
        queue: tuple[SqsInbox, Publisher] | None = None
        opener = Opener(settings.max_body_bytes)
        if aws is not None:  # before the model: what is wrong with it shows in a second
            queue = await open_queue(stack, settings, aws)
            opener = await open_opener(stack, settings, aws)
        brain = await _open_unless_stopped(stack, open_brain(settings), lifecycle)
        if brain is None:
            return
        if brain.shelf is not None:
            lifecycle.on_hangup(brain.shelf.reload)
        probes.evaluator = brain.evaluator
        if sidecar is not None:
            sidecar.answer_with(
                brain.evaluator,
                contexts=brain.size.contexts,
                spells_control=brain.spells_control,
            )
        if aws is not None and settings.feedback_queue_url is not None:
            await _open_feedback(stack, settings, lifecycle, aws, brain.evaluator)
        lifecycle.ready()
        if queue is not None:
            _log.info("receive_started", queue_url=settings.queue_url, topic_arn=settings.topic_arn)
            spans = QueueSpans(tracer, settings.queue_url or "", settings.topic_arn or "")
            await _consume(settings, lifecycle, brain.evaluator, opener, spans, *queue)
        await lifecycle.stopping.wait()
        if sidecar is not None:
            lifecycle.unfinished += await sidecar.drain(_left_seconds(settings, lifecycle))


def _left_seconds(settings: Settings, lifecycle: Lifecycle) -> float:
    """Return what is left of the time to drain."""
    return max(0.0, settings.drain_seconds - lifecycle.draining_seconds())


async def _open_tracer(stack: AsyncExitStack, settings: Settings, lifecycle: Lifecycle) -> Tracer:
    """Return what keeps spans, if they are asked for; the first to open, since all others tell it.

    Raises:
        UsageError: the extra is missing, or one of OpenTelemetry's variables is wrong.
    """
    if not settings.tracing:
        return NO_TRACER
    check_extra()
    from worker.otel.export import open_tracer  # the extra may be missing

    opening = open_tracer(lambda: _left_seconds(settings, lifecycle), otlp_protocol())
    return await stack.enter_async_context(opening)


async def _open_sidecar(
    stack: AsyncExitStack, settings: Settings, lifecycle: Lifecycle, tracer: Tracer
) -> Sidecar:
    """Listen; answers come once there is a model.

    Raises:
        UsageError: without keys others could reach it, or it cannot listen.
    """
    keys = None if settings.api_keys_file is None else Keys(settings.api_keys_file)
    if keys is None and not (settings.is_local() or settings.open_to_all or under_sagemaker()):
        raise UsageError(
            f"others can reach {settings.host}: set --api-keys-file, or --open-to-all to answer"
            " everybody"
        )
    if keys is not None:
        lifecycle.on_hangup(keys.reload)
    options = SidecarOptions(
        max_body_bytes=settings.max_body_bytes,
        body_seconds=settings.body_seconds,
        request_seconds=settings.request_seconds,
        max_callers=settings.max_callers,
        stall_seconds=settings.stall_seconds,
        guard_probes=settings.guard_probes,
    )
    sidecar = Sidecar(lifecycle, options, keys, tracer)
    lifecycle.tell_abandoned("requests", lambda: sidecar.at_work)
    await sidecar.listen(settings.host, settings.port or 0)
    stack.push_async_callback(sidecar.close)
    _log.info("keys_read", keys=0 if keys is None else len(keys), everybody=keys is None)
    return sidecar


async def _open_probes(
    stack: AsyncExitStack, settings: Settings, lifecycle: Lifecycle, sidecar: Sidecar | None
) -> Probes:
    """Return what monitors ask; answer it on a port of its own, if there is one.

    Raises:
        UsageError: that port cannot be listened on.
    """
    if sidecar is not None:
        probes = sidecar.probes
    else:
        probes = Probes(lifecycle, stall_seconds=settings.stall_seconds)
    if settings.metrics_port is not None:
        host, port = settings.metrics_host, settings.metrics_port
        await stack.enter_async_context(open_monitoring(lifecycle, probes, host, port))
    return probes


async def _open_unless_stopped(
    stack: AsyncExitStack, brain: AbstractAsyncContextManager[Brain], lifecycle: Lifecycle
) -> Brain | None:
    """Open the model; give it up when the stop event comes first, and return None."""
    opening = asyncio.ensure_future(stack.enter_async_context(brain))
    stopped = asyncio.ensure_future(lifecycle.stopping.wait())
    try:
        await asyncio.wait({opening, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            return opening.result()
        return None
    finally:
        for task in (opening, stopped):
            task.cancel()
        await asyncio.gather(opening, stopped, return_exceptions=True)


async def open_queue(
    stack: AsyncExitStack, settings: Settings, aws: Connection
) -> tuple[SqsInbox, Publisher]:
    """Open queue and topic on *stack*, and check the lease settings against the queue.

    Raises:
        UsageError: a setting is missing, or the heartbeat does not fit the queue's visibility.
        AwsUnusable: queue or topic cannot be used.
    """
    missing = [
        f"--{name}"
        for name, value in (("queue-url", settings.queue_url), ("topic-arn", settings.topic_arn))
        if not value
    ]
    if missing or settings.queue_url is None or settings.topic_arn is None:
        raise UsageError(f"the queue face needs {' and '.join(missing)}")
    inbox = await stack.enter_async_context(
        open_inbox(
            aws,
            settings.queue_url,
            wait_seconds=settings.wait_seconds,
            visibility_seconds=settings.visibility_seconds,
            connections=settings.max_in_hand + 4,
        )
    )
    publisher = await stack.enter_async_context(
        open_publisher(aws, settings.topic_arn, connections=settings.max_in_hand)
    )
    if faults := settings.lease_faults(inbox.visibility_seconds):
        raise UsageError("; ".join(faults))
    if inbox.facts.dead_letter_url is None:
        _log.warning("dead_letter_queue_not_found", on_reject=settings.on_reject)
    if settings.outcome_bucket is None:
        return inbox, publisher
    documents = await stack.enter_async_context(
        open_documents(aws, connections=settings.max_in_hand)
    )
    place = Prefix.parse(settings.outcome_bucket)
    return inbox, OffloadingPublisher(publisher, documents, place, publisher.max_bytes)


async def open_opener(stack: AsyncExitStack, settings: Settings, aws: Connection) -> Opener:
    """Open S3 on *stack* when a bucket is allowed; else no client for it is made.

    Raises:
        AwsUnusable: no client can be made.
    """
    if not settings.allow_bucket:
        return Opener(settings.max_body_bytes)
    documents = await stack.enter_async_context(
        open_documents(aws, connections=settings.max_in_hand)
    )
    allowed = AllowList(tuple(map(Prefix.parse, settings.allow_bucket)))
    bookcase = Bookcase(documents, allowed, settings.max_document_bytes)
    return Opener(settings.max_body_bytes, bookcase)


async def _open_feedback(
    stack: AsyncExitStack,
    settings: Settings,
    lifecycle: Lifecycle,
    aws: Connection,
    evaluator: Evaluator,
) -> None:
    """Read the feedback queue until the stop event, which *stack* then waits for.

    Raises:
        UsageError: its URL is no queue's.
        AwsUnusable: it cannot be used.
    """
    inbox = await stack.enter_async_context(
        open_inbox(
            aws,
            settings.feedback_queue_url or "",
            wait_seconds=settings.wait_seconds,
            visibility_seconds=None,
            connections=FEEDBACK_CONNECTIONS,
        )
    )
    consumer = FeedbackConsumer(
        inbox, evaluator.overrides, lifecycle, inbox.facts.dead_letter_url is not None
    )
    reading = asyncio.create_task(consumer.run(), name="feedback")

    async def finish() -> None:
        await reading

    stack.push_async_callback(finish)


async def _consume(
    settings: Settings,
    lifecycle: Lifecycle,
    evaluator: Evaluator,
    opener: Opener,
    spans: QueueSpans,
    inbox: SqsInbox,
    publisher: Publisher,
) -> None:
    """Carry deliveries until the stop event, protected from scale-in where there is ECS."""
    leases = Leases(
        inbox,
        visibility_seconds=inbox.visibility_seconds,
        heartbeat_seconds=settings.heartbeat_for(inbox.visibility_seconds),
    )
    metrics.OLDEST_HELD.set_function(leases.oldest_seconds)
    handler = Handler(
        inbox=inbox,
        publisher=publisher,
        leases=leases,
        evaluator=evaluator,
        lifecycle=lifecycle,
        has_dead_letter_queue=inbox.facts.dead_letter_url is not None,
        on_reject=settings.on_reject,
        max_backoff_seconds=settings.max_backoff_seconds,
        opener=opener,
        groups=Groups(in_order=(settings.queue_url or "").endswith(".fifo")),
        spans=spans,
    )
    async with open_protection(ecs_agent_url()) as protection:
        consumer = Consumer(
            inbox=inbox,
            handler=handler,
            leases=leases,
            lifecycle=lifecycle,
            max_in_hand=settings.max_in_hand,
            drain_seconds=settings.drain_seconds,
            queued_tokens=lambda: evaluator.engine.waiting_tokens,
            max_queued_tokens=settings.max_queued_tokens or settings.max_waiting_tokens // 2,
            on_change=protection.note if protection else lambda _: None,
            spans=spans,
        )
        lifecycle.tell_abandoned("deliveries", consumer.in_hand)
        await consumer.run()
