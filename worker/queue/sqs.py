"""The inbox on Amazon SQS."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.decision.attributes import attribute_value
from worker.errors import AwsUnusable
from worker.ports import Delivery
from worker.queue.aws import (
    Connection,
    aws_errors,
    call_config,
    errors_by_place,
    is_refused_for_good,
    poll_config,
)
from worker.queue.batches import MOST_ENTRIES, Batches
from worker.queue.envelope import SIZE_ATTRIBUTES
from worker.trace import AWS_HEADER, NAMES

if TYPE_CHECKING:
    from types_aiobotocore_sqs.client import SQSClient

_DEFAULT_VISIBILITY_SECONDS = 30
_MAX_MESSAGE_BYTES = 1_048_576
_REASON_BYTES = 4096  # room for a reason's attributes, names and types included


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What the worker learns of its queue at start.

    Attributes:
        visibility_seconds: the queue's own visibility timeout.
        dead_letter_url: the queue's dead-letter queue, when it has one.
    """

    visibility_seconds: int
    dead_letter_url: str | None


class SqsInbox:
    """One queue.

    Args:
        polls: the client for long polls, which nothing else may wait behind.
        beats: the client for extensions, which must not wait behind anything either.
        calls: the client for everything else.
        queue_url: the queue.
        facts: as read at start.
        wait_seconds: how long one poll waits.
        visibility_seconds: the lease of what is received.
    """

    def __init__(
        self,
        polls: "SQSClient",
        beats: "SQSClient",
        calls: "SQSClient",
        queue_url: str,
        facts: QueueFacts,
        *,
        wait_seconds: int,
        visibility_seconds: int,
    ) -> None:
        self._polls = polls
        self._beats = beats
        self._calls = calls
        self._queue_url = queue_url
        self.facts = facts
        self._wait_seconds = wait_seconds
        self.visibility_seconds = visibility_seconds
        self._deletes = Batches(self._delete_batch)

    async def receive(self, most: int) -> Sequence[Delivery]:
        """Wait for up to *most* deliveries; see :class:`worker.ports.Inbox`."""
        asked_at = asyncio.get_running_loop().time()
        with aws_errors("receive from the queue", operation="receive"):
            answer = await self._polls.receive_message(
                QueueUrl=self._queue_url,
                MaxNumberOfMessages=min(most, MOST_ENTRIES),
                WaitTimeSeconds=self._wait_seconds,
                VisibilityTimeout=self.visibility_seconds,
                MessageSystemAttributeNames=[
                    "ApproximateReceiveCount",
                    "SentTimestamp",
                    "MessageGroupId",
                    AWS_HEADER,
                ],
                MessageAttributeNames=[*NAMES, *SIZE_ATTRIBUTES],
            )
        return [_delivery(message, asked_at) for message in answer.get("Messages", [])]

    async def extend(self, deliveries: Sequence[Delivery], seconds: int) -> Sequence[Delivery]:
        """Hide *deliveries* for *seconds* from now; return those definitely refused."""
        with aws_errors("extend leases", operation="extend"):
            answer = await self._beats.change_message_visibility_batch(
                QueueUrl=self._queue_url,
                Entries=[
                    {
                        "Id": str(index),
                        "ReceiptHandle": delivery.receipt_handle,
                        "VisibilityTimeout": seconds,
                    }
                    for index, delivery in enumerate(deliveries)
                ],
            )
        failed = answer.get("Failed", [])
        return [deliveries[int(entry["Id"])] for entry in failed if is_refused_for_good(entry)]

    async def release(self, delivery: Delivery, delay_seconds: int) -> None:
        """Give a delivery back, to be received again after *delay_seconds*."""
        with aws_errors("release a delivery", operation="release"):
            await self._calls.change_message_visibility(
                QueueUrl=self._queue_url,
                ReceiptHandle=delivery.receipt_handle,
                VisibilityTimeout=delay_seconds,
            )

    async def delete(self, delivery: Delivery) -> None:
        """Take a finished delivery off the queue."""
        await self._deletes.add(delivery)

    async def close(self) -> None:
        """Wait for the calls that are under way."""
        await self._deletes.close()

    async def _delete_batch(self, deliveries: Sequence[Delivery]) -> list[Exception | None]:
        with aws_errors("delete deliveries", operation="delete"):
            answer = await self._calls.delete_message_batch(
                QueueUrl=self._queue_url,
                Entries=[
                    # By place: a message that was received twice may be in one batch twice.
                    {"Id": str(index), "ReceiptHandle": delivery.receipt_handle}
                    for index, delivery in enumerate(deliveries)
                ],
            )
        return errors_by_place(answer, len(deliveries), "delete a delivery", operation="delete")

    async def dead_letter(self, delivery: Delivery, reason: Mapping[str, str]) -> None:
        """Copy a delivery to the dead-letter queue with *reason* as attributes."""
        if self.facts.dead_letter_url is None:
            raise AwsUnusable("the queue has no dead-letter queue")
        group: Any = (
            {"MessageGroupId": delivery.group_id, "MessageDeduplicationId": delivery.message_id}
            if delivery.group_id
            else {}
        )
        attributes: Any = {
            name: {"DataType": "String", "StringValue": attribute_value(value)}
            for name, value in {**delivery.attributes, **reason}.items()
            if value
        }
        carried = sum(len(n.encode()) + len(v.encode()) for n, v in delivery.attributes.items())
        if len(delivery.body.encode()) + carried > _MAX_MESSAGE_BYTES - _REASON_BYTES:
            attributes = {}  # better without its reason than not at all
        with aws_errors("copy a delivery to the dead-letter queue", operation="dead_letter"):
            await self._calls.send_message(
                QueueUrl=self.facts.dead_letter_url,
                MessageBody=delivery.body,
                MessageAttributes=attributes,
                MessageSystemAttributes=_trace_header(delivery),
                **group,
            )


@asynccontextmanager
async def open_inbox(
    connection: Connection,
    queue_url: str,
    *,
    wait_seconds: int,
    visibility_seconds: int | None,
    connections: int,
) -> AsyncIterator[SqsInbox]:
    """Open the clients and look at the queue.

    Args:
        connection: how AWS is reached.
        queue_url: the queue.
        wait_seconds: how long one poll waits.
        visibility_seconds: the lease of what is received; None takes the queue's own.
        connections: the most calls at once beside polls.

    Raises:
        AwsUnusable: no credentials, no region, no such queue, not allowed, or not reachable.
    """
    connection.check_region()
    async with AsyncExitStack() as stack:
        with aws_errors("open the queue", starting=True):
            polls = connection.sqs(poll_config(wait_seconds))
            poll_client = await stack.enter_async_context(polls)
            beats = connection.sqs(call_config(connections // MOST_ENTRIES + 2))
            beat_client = await stack.enter_async_context(beats)
            calls = connection.sqs(call_config(connections))
            call_client = await stack.enter_async_context(calls)
        with aws_errors(f"look at the queue {queue_url}", starting=True):
            facts = await _look_at(call_client, queue_url)
        inbox = SqsInbox(
            poll_client,
            beat_client,
            call_client,
            queue_url,
            facts,
            wait_seconds=wait_seconds,
            visibility_seconds=visibility_seconds or facts.visibility_seconds,
        )
        stack.push_async_callback(inbox.close)
        yield inbox


async def _look_at(client: "SQSClient", queue_url: str) -> QueueFacts:
    answer = await client.get_queue_attributes(
        QueueUrl=queue_url, AttributeNames=["VisibilityTimeout", "RedrivePolicy"]
    )
    attributes = answer.get("Attributes", {})
    dead_letter_url = None
    if policy := attributes.get("RedrivePolicy"):
        *_, owner, name = json.loads(policy)["deadLetterTargetArn"].split(":")
        found = await client.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=owner)
        dead_letter_url = found["QueueUrl"]
    # A queue's visibility of zero would make every message everyone's.
    visibility = int(attributes.get("VisibilityTimeout", _DEFAULT_VISIBILITY_SECONDS))
    return QueueFacts(visibility or _DEFAULT_VISIBILITY_SECONDS, dead_letter_url)


def _trace_header(delivery: Delivery) -> Any:
    if not delivery.trace_header:
        return {}
    return {AWS_HEADER: {"DataType": "String", "StringValue": delivery.trace_header}}


def _delivery(message: Any, asked_at: float) -> Delivery:
    attributes = message.get("Attributes", {})
    sent_at = int(attributes.get("SentTimestamp", 0)) / 1000
    return Delivery(
        message_id=message["MessageId"],
        receipt_handle=message["ReceiptHandle"],
        body=message["Body"],
        receive_count=int(attributes.get("ApproximateReceiveCount", 1)),
        sent_at=sent_at,
        asked_at=asked_at,
        group_id=attributes.get("MessageGroupId"),
        attributes={
            name: attribute["StringValue"]
            for name, attribute in message.get("MessageAttributes", {}).items()
            if "StringValue" in attribute
        },
        trace_header=attributes.get(AWS_HEADER, ""),
    )
