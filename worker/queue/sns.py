"""The publisher on Amazon SNS."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from worker.decision.attributes import Attribute
from worker.errors import AwsUnusable, EntryRefused, Rejected
from worker.queue.aws import INVALID, Connection, aws_errors, call_config, errors_by_place
from worker.queue.batches import Batches
from worker.queue.offload import message_bytes

if TYPE_CHECKING:
    from types_aiobotocore_sns.client import SNSClient

USUAL_MAX_BYTES = 262_144
"""What a topic takes unless it is configured for more; attributes count."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Entry:
    message: str
    attributes: Mapping[str, Attribute]
    order: Mapping[str, str]


class SnsPublisher:
    """One topic.

    Attributes:
        max_bytes: the most that the topic takes, attributes included: of one message, and of a
            batch of them.
    """

    def __init__(
        self, client: "SNSClient", topic_arn: str, max_bytes: int = USUAL_MAX_BYTES
    ) -> None:
        self._client = client
        self._topic_arn = topic_arn
        self._is_fifo = topic_arn.endswith(".fifo")
        self.max_bytes = max_bytes
        self._batches = Batches(self._call, most_bytes=max_bytes, is_anothers=_is_invalid)
        self._took_one = False

    async def publish(
        self,
        message: str,
        attributes: Mapping[str, Attribute],
        *,
        outcome_id: str,
        group_id: str | None,
    ) -> None:
        """Publish one outcome; see :class:`worker.ports.Publisher`."""
        size = message_bytes(message, attributes)
        if size > self.max_bytes:
            raise Rejected(
                "outcome_too_large",
                f"the outcome has {size} bytes, the topic takes {self.max_bytes}",
            )
        order = {"MessageGroupId": group_id} if group_id else {}
        if self._is_fifo:
            order = {
                "MessageGroupId": group_id or outcome_id,
                "MessageDeduplicationId": outcome_id,
            }
        try:
            await self._batches.add(_Entry(message, attributes, order), size)
        except EntryRefused as error:
            raise Rejected("outcome_refused", str(error)) from error
        except AwsUnusable as error:
            # Of a topic that has taken others it is this outcome's fault; else the topic's.
            if _is_invalid(error) and self._took_one:
                raise Rejected("outcome_refused", str(error)) from error
            raise
        self._took_one = True

    async def close(self) -> None:
        """Wait for the calls that are under way."""
        await self._batches.close()

    async def _call(self, entries: Sequence[_Entry]) -> list[Exception | None]:
        requests: Any = [
            {
                "Id": str(place),
                "Message": entry.message,
                "MessageAttributes": {
                    name: {"DataType": attribute.type, "StringValue": attribute.value}
                    for name, attribute in entry.attributes.items()
                },
                **entry.order,
            }
            for place, entry in enumerate(entries)
        ]
        with aws_errors("publish outcomes", operation="publish"):
            answer = await self._client.publish_batch(
                TopicArn=self._topic_arn, PublishBatchRequestEntries=requests
            )
        return errors_by_place(answer, len(entries), "publish an outcome", operation="publish")


def _is_invalid(error: Exception) -> bool:
    return isinstance(error, AwsUnusable) and error.code == INVALID


@asynccontextmanager
async def open_publisher(
    connection: Connection, topic_arn: str, *, connections: int
) -> AsyncIterator[SnsPublisher]:
    """Open the client and look at the topic.

    Raises:
        AwsUnusable: no credentials, no region, no such topic, or not reachable.
    """
    connection.check_region()
    async with AsyncExitStack() as stack:
        with aws_errors("open the topic", starting=True):
            opening = connection.sns(call_config(connections))
            client = await stack.enter_async_context(opening)
        publisher = SnsPublisher(client, topic_arn, await _max_bytes(client, topic_arn))
        stack.push_async_callback(publisher.close)
        yield publisher


async def _max_bytes(client: "SNSClient", topic_arn: str) -> int:
    """Look at the topic; return the most it takes, as far as it says."""
    try:
        with aws_errors(f"look at the topic {topic_arn}", starting=True):
            answer = await client.get_topic_attributes(TopicArn=topic_arn)
        return int(answer["Attributes"].get("MaximumMessageSize", USUAL_MAX_BYTES))
    except AwsUnusable as error:
        # A role that may only publish may not look; whether it may publish shows later.
        if error.code not in ("AuthorizationError", "AccessDenied"):
            raise
        _log.warning("topic_not_checked", reason="the role may not read the topic's attributes")
        return USUAL_MAX_BYTES
