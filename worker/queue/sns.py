"""The publisher on Amazon SNS."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from worker.decision.attributes import Attribute
from worker.errors import AwsUnusable, Rejected
from worker.queue.aws import Connection, aws_errors, call_config
from worker.queue.offload import message_bytes

if TYPE_CHECKING:
    from types_aiobotocore_sns.client import SNSClient

MAX_MESSAGE_BYTES = 262_144
"""What a topic takes unless it is configured for more; attributes count."""

_log = structlog.get_logger()


class SnsPublisher:
    """One topic."""

    def __init__(self, client: "SNSClient", topic_arn: str) -> None:
        self._client = client
        self._topic_arn = topic_arn
        self._is_fifo = topic_arn.endswith(".fifo")

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
        if size > MAX_MESSAGE_BYTES:
            raise Rejected(
                "outcome_too_large",
                f"the outcome has {size} bytes, the topic takes {MAX_MESSAGE_BYTES}",
            )
        order: Any = {"MessageGroupId": group_id} if group_id else {}
        if self._is_fifo:
            order = {
                "MessageGroupId": group_id or outcome_id,
                "MessageDeduplicationId": outcome_id,
            }
        with aws_errors("publish an outcome"):
            await self._client.publish(
                TopicArn=self._topic_arn,
                Message=message,
                MessageAttributes={
                    name: {"DataType": attribute.type, "StringValue": attribute.value}
                    for name, attribute in attributes.items()
                },
                **order,
            )


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
        await _look_at(client, topic_arn)
        yield SnsPublisher(client, topic_arn)


async def _look_at(client: "SNSClient", topic_arn: str) -> None:
    try:
        with aws_errors(f"look at the topic {topic_arn}", starting=True):
            await client.get_topic_attributes(TopicArn=topic_arn)
    except AwsUnusable as error:
        # A role that may only publish may not look; whether it may publish shows later.
        if error.code not in ("AuthorizationError", "AccessDenied"):
            raise
        _log.warning("topic_not_checked", reason="the role may not read the topic's attributes")
