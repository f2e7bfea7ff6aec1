"""The mailbox on Amazon SQS."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.desk.letters import MOST_BYTES, MOST_ENTRIES, Letter
from worker.desk.mailbox import Received, Refusal
from worker.errors import AwsUnusable, UsageError
from worker.queue.aws import Connection, aws_errors, call_config

if TYPE_CHECKING:
    from types_aiobotocore_sqs.client import SQSClient

_CONNECTIONS = 8
_READ_SECONDS = 30  # outlasts any long poll
_CAUTIOUS_BYTES = 262_144  # what every queue took before it could be set higher


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What a queue says about itself.

    Attributes:
        max_bytes: the largest message it takes.
        dead_letter_url: its dead-letter queue, when it has one.
        messages: about how many it holds, hidden ones too.
    """

    max_bytes: int
    dead_letter_url: str | None
    messages: int


class SqsMailbox:
    """One queue."""

    def __init__(self, client: "SQSClient", queue_url: str) -> None:
        self._client = client
        self.queue_url = queue_url

    async def send(self, letters: Sequence[Letter]) -> Sequence[Refusal]:
        """Send up to ten letters; see :class:`worker.desk.mailbox.Mailbox`."""
        with aws_errors("send to the queue"):
            answer = await self._client.send_message_batch(
                QueueUrl=self.queue_url,
                Entries=[_entry(index, letter) for index, letter in enumerate(letters)],
            )
        return [
            Refusal(letters[int(failed["Id"])], failed["Code"], failed["SenderFault"])
            for failed in answer.get("Failed", [])
        ]

    async def receive(self, *, wait_seconds: int, hide_seconds: int) -> Sequence[Received]:
        """Receive up to ten messages and hide them for *hide_seconds*."""
        with aws_errors("receive from the queue"):
            answer = await self._client.receive_message(
                QueueUrl=self.queue_url,
                MaxNumberOfMessages=MOST_ENTRIES,
                WaitTimeSeconds=wait_seconds,
                VisibilityTimeout=hide_seconds,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["SentTimestamp", "MessageGroupId"],
            )
        return [_received(message) for message in answer.get("Messages", [])]

    async def delete(self, messages: Sequence[Received]) -> int:
        """Delete up to ten messages; return how many were not."""
        with aws_errors("delete from the queue"):
            answer = await self._client.delete_message_batch(
                QueueUrl=self.queue_url,
                Entries=[
                    {"Id": str(index), "ReceiptHandle": message.receipt_handle}
                    for index, message in enumerate(messages)
                ],
            )
        return len(answer.get("Failed", []))

    async def release(self, messages: Sequence[Received]) -> None:
        """Show up to ten messages again at once; where that fails they come back by themselves."""
        with aws_errors("release messages"):
            await self._client.change_message_visibility_batch(
                QueueUrl=self.queue_url,
                Entries=[
                    {
                        "Id": str(index),
                        "ReceiptHandle": message.receipt_handle,
                        "VisibilityTimeout": 0,
                    }
                    for index, message in enumerate(messages)
                ],
            )

    async def limits(self) -> QueueLimits:
        """Ask the queue about itself; a role that may not is answered with cautious numbers.

        Raises:
            AwsUnusable: no credentials, no such queue, or not reachable.
        """
        try:
            with aws_errors(f"look at the queue {self.queue_url}", starting=True):
                answer = await self._client.get_queue_attributes(
                    QueueUrl=self.queue_url, AttributeNames=["All"]
                )
        except AwsUnusable as error:
            if error.code not in ("AccessDenied", "AccessDeniedException"):
                raise
            return QueueLimits(_CAUTIOUS_BYTES, None, 0)
        found: Any = answer.get("Attributes", {})
        return QueueLimits(
            min(MOST_BYTES, int(found.get("MaximumMessageSize", _CAUTIOUS_BYTES))),
            await self._dead_letter_url(found.get("RedrivePolicy")),
            int(found.get("ApproximateNumberOfMessages", 0))
            + int(found.get("ApproximateNumberOfMessagesNotVisible", 0)),
        )

    def another(self, queue_url: str) -> "SqsMailbox":
        """Return another queue on the same client."""
        return SqsMailbox(self._client, queue_url)

    async def _dead_letter_url(self, policy: str | None) -> str | None:
        if not policy:
            return None
        *_, owner, name = json.loads(policy)["deadLetterTargetArn"].split(":")
        with aws_errors("find the dead-letter queue", starting=True):
            found = await self._client.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=owner)
        return found["QueueUrl"]


@asynccontextmanager
async def open_mailbox(connection: Connection, queue_url: str) -> AsyncIterator[SqsMailbox]:
    """Open a client for one queue.

    Raises:
        UsageError: *queue_url* is none.
        AwsUnusable: no region, or no client can be made.
    """
    if not queue_url.startswith(("http://", "https://")):
        raise UsageError("--queue-url must be the URL of an SQS queue")
    connection.check_region()
    async with AsyncExitStack() as stack:
        with aws_errors("open the queue", starting=True):
            config = call_config(_CONNECTIONS, read_seconds=_READ_SECONDS)
            client = await stack.enter_async_context(connection.sqs(config))
        yield SqsMailbox(client, queue_url)


def _entry(index: int, letter: Letter) -> Any:
    entry: dict[str, Any] = {"Id": str(index), "MessageBody": letter.body}
    if letter.attributes:
        entry["MessageAttributes"] = dict(letter.attributes)
    if letter.group_id is not None:
        entry["MessageGroupId"] = letter.group_id
    if letter.deduplication_id is not None:
        entry["MessageDeduplicationId"] = letter.deduplication_id
    return entry


def _received(message: Any) -> Received:
    facts = message.get("Attributes", {})
    return Received(
        message["MessageId"],
        message["ReceiptHandle"],
        message["Body"],
        message.get("MessageAttributes", {}),
        facts.get("MessageGroupId"),
        int(facts.get("SentTimestamp", 0)) / 1000,
    )
