"""The SQS adapter's batches, on a client that answers as it is told."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import REGISTRY

from tests.factories import make_delivery
from worker.errors import AwsUnavailable, AwsUnusable, EntryRefused
from worker.queue.sqs import QueueFacts, SqsInbox


@dataclass
class FakeSqs:
    """Takes deletions but those it is told to refuse, by receipt handle."""

    refused: dict[str, tuple[str, bool]] = field(default_factory=dict)
    calls: list[list[dict[str, Any]]] = field(default_factory=list)
    receives: list[dict[str, Any]] = field(default_factory=list)

    async def receive_message(self, **asked: Any) -> Any:
        self.receives.append(asked)
        return {}

    async def delete_message_batch(self, **asked: Any) -> Any:
        self.calls.append(asked["Entries"])
        found = [
            {"Id": entry["Id"], "Code": code, "SenderFault": sender}
            for entry in asked["Entries"]
            for code, sender in [self.refused.get(entry["ReceiptHandle"], ("", False))]
            if code
        ]
        return {"Failed": found} if found else {}


def inbox(sqs: FakeSqs) -> SqsInbox:
    client = cast("Any", sqs)
    facts = QueueFacts(30, None)
    return SqsInbox(client, client, client, "url", facts, wait_seconds=5, visibility_seconds=30)


def failed_deletes() -> float:
    """Return how many entries failed, in this process."""
    name = "decision_aws_entry_failures_total"
    return REGISTRY.get_sample_value(name, {"operation": "delete"}) or 0.0


async def test_deliveries_are_deleted_together() -> None:
    """In tens, with ids by place: one message received twice does not spoil the call."""
    sqs = FakeSqs()
    there = inbox(sqs)
    deliveries = [make_delivery(message_id="same", receipt_handle=str(n)) for n in range(12)]
    await asyncio.gather(*map(there.delete, deliveries))

    assert [10, 2] == list(map(len, sqs.calls))
    assert [str(place) for place in range(10)] == [entry["Id"] for entry in sqs.calls[0]]
    assert list(map(str, range(12))) == [
        entry["ReceiptHandle"] for call in sqs.calls for entry in call
    ]


async def test_each_failed_entry_is_told() -> None:
    """A handle that is no longer ours, a fault of SQS, a role that may not: each by itself."""
    sqs = FakeSqs(
        {
            "stale": ("ReceiptHandleIsInvalid", True),
            "later": ("InternalError", False),
            "never": ("AccessDenied", True),
        }
    )
    there = inbox(sqs)
    before = failed_deletes()
    handles = ("good", "stale", "later", "never")
    told = await asyncio.gather(
        *(there.delete(make_delivery(receipt_handle=handle)) for handle in handles),
        return_exceptions=True,
    )

    assert [type(None), EntryRefused, AwsUnavailable, AwsUnusable] == list(map(type, told))
    assert before + 3 == failed_deletes()
