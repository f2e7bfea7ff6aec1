"""The queue face on fakes of all its ports."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import REGISTRY

from tests.factories import make_provenance, make_wording
from tests.fakes import FakeEngine, FakeInbox, FakePublisher, Journal
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.ports import Delivery
from worker.queue.consumer import Consumer
from worker.queue.groups import Groups
from worker.queue.handler import Handler
from worker.queue.lease import Leases
from worker.queue.opening import Opener
from worker.queue.spans import QueueSpans
from worker.tracing import NO_TRACER, Tracer

VISIBILITY_SECONDS = 30
HEARTBEAT_SECONDS = 10.0
QUEUE_URL = "https://sqs.example/1/tickets"
TOPIC_ARN = "arn:aws:sns:eu-west-1:1:outcomes"


@dataclass
class Bench:
    """All parts of one queue face; the fakes share one journal."""

    journal: Journal
    inbox: FakeInbox
    publisher: FakePublisher
    engine: FakeEngine
    leases: Leases
    lifecycle: Lifecycle
    handler: Handler

    async def receive(self, body: str, **fields: Any) -> Delivery:
        """Put one message into the queue and receive it."""
        self.inbox.put(body, **fields)
        [delivery] = await self.inbox.receive(1)
        return delivery

    async def carry(self, body: str, **fields: Any) -> Delivery:
        """Put one message into the queue, receive it and carry it to its end."""
        delivery = await self.receive(body, **fields)
        await self.handler.carry(delivery)
        return delivery

    def consumer(self, *, max_in_hand: int = 4, drain_seconds: float = 20.0) -> Consumer:
        return Consumer(
            inbox=self.inbox,
            handler=self.handler,
            leases=self.leases,
            lifecycle=self.lifecycle,
            max_in_hand=max_in_hand,
            drain_seconds=drain_seconds,
            queued_tokens=lambda: self.engine.waiting_tokens,
            max_queued_tokens=1000,
            spans=self.handler.spans,
        )


def make_leases(inbox: FakeInbox) -> Leases:
    return Leases(inbox, visibility_seconds=VISIBILITY_SECONDS, heartbeat_seconds=HEARTBEAT_SECONDS)


def make_bench(
    *,
    has_dead_letter_queue: bool = True,
    on_reject: Any = "keep",
    max_backoff_seconds: int = 900,
    max_body_bytes: int = 100_000,
    wait_seconds: float = 5,
    opener: Opener | None = None,
    in_order: bool = False,
    tracer: Tracer = NO_TRACER,
) -> Bench:
    journal = Journal()
    inbox = FakeInbox(journal, visibility_seconds=VISIBILITY_SECONDS, wait_seconds=wait_seconds)
    publisher = FakePublisher(journal)
    engine = FakeEngine(journal)
    leases = make_leases(inbox)
    lifecycle = Lifecycle()
    evaluator = Evaluator(engine, make_wording(), make_provenance())
    handler = Handler(
        inbox=inbox,
        publisher=publisher,
        leases=leases,
        evaluator=evaluator,
        lifecycle=lifecycle,
        has_dead_letter_queue=has_dead_letter_queue,
        on_reject=on_reject,
        max_backoff_seconds=max_backoff_seconds,
        opener=opener or Opener(max_body_bytes),
        groups=Groups(in_order=in_order),
        spans=QueueSpans(tracer, QUEUE_URL, TOPIC_ARN),
    )
    return Bench(journal, inbox, publisher, engine, leases, lifecycle, handler)


@asynccontextmanager
async def beating(leases: Leases) -> AsyncIterator[None]:
    """Let the heartbeat run."""
    task = asyncio.create_task(leases.beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


def finished(result: str) -> float:
    """Return how many deliveries have ended so, in this process."""
    name = "decision_deliveries_finished_total"
    return REGISTRY.get_sample_value(name, {"result": result}) or 0.0
