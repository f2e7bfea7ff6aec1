"""A support desk around the worker: its queue, its topic, a subscriber that collects outcomes."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aioboto3

if TYPE_CHECKING:
    from types_aiobotocore_sns.client import SNSClient
    from types_aiobotocore_sqs.client import SQSClient

_BATCH = 10
_WAIT_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Desk:
    """An open desk.

    Attributes:
        queue_url: where tickets go.
        dead_letter_url: where tickets go that cannot be answered.
        topic_arn: where outcomes come from.
    """

    queue_url: str
    dead_letter_url: str
    topic_arn: str
    _subscriber_url: str
    _sqs: "SQSClient"

    async def send(self, tickets: Sequence[dict[str, Any]]) -> None:
        """Put tickets on the queue."""
        for start in range(0, len(tickets), _BATCH):
            await self._sqs.send_message_batch(
                QueueUrl=self.queue_url,
                Entries=[
                    {"Id": str(index), "MessageBody": json.dumps(ticket, ensure_ascii=False)}
                    for index, ticket in enumerate(tickets[start : start + _BATCH])
                ],
            )

    async def outcomes(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield outcomes as they are published, for ever."""
        while True:
            answer = await self._sqs.receive_message(
                QueueUrl=self._subscriber_url,
                MaxNumberOfMessages=_BATCH,
                WaitTimeSeconds=_WAIT_SECONDS,
            )
            messages = answer.get("Messages", [])
            if messages:
                await self._sqs.delete_message_batch(
                    QueueUrl=self._subscriber_url,
                    Entries=[
                        {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                        for index, message in enumerate(messages)
                    ],
                )
            for message in messages:
                yield json.loads(message["Body"])
            await asyncio.sleep(0)


def local_session() -> aioboto3.Session:
    """Return a session for an emulator: it takes any credentials, but not none."""
    return aioboto3.Session(
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - an emulator's
        region_name="us-east-1",
    )


@asynccontextmanager
async def open_desk(session: aioboto3.Session, endpoint_url: str) -> AsyncIterator[Desk]:
    """Create queue, dead-letter queue, topic and subscriber on an emulator."""
    async with (
        session.client("sqs", endpoint_url=endpoint_url) as sqs,
        session.client("sns", endpoint_url=endpoint_url) as sns,
    ):
        yield await _create(sqs, sns)


async def _create(sqs: "SQSClient", sns: "SNSClient") -> Desk:
    dead_letter_url = (await sqs.create_queue(QueueName="tickets-dead"))["QueueUrl"]
    redrive = {"deadLetterTargetArn": await _arn(sqs, dead_letter_url), "maxReceiveCount": 5}
    queue = await sqs.create_queue(
        QueueName="tickets",
        Attributes={"VisibilityTimeout": "60", "RedrivePolicy": json.dumps(redrive)},
    )
    topic_arn = (await sns.create_topic(Name="outcomes"))["TopicArn"]
    subscriber_url = (await sqs.create_queue(QueueName="outcomes"))["QueueUrl"]
    await sns.subscribe(
        TopicArn=topic_arn,
        Protocol="sqs",
        Endpoint=await _arn(sqs, subscriber_url),
        Attributes={"RawMessageDelivery": "true"},
    )
    return Desk(queue["QueueUrl"], dead_letter_url, topic_arn, subscriber_url, sqs)


async def _arn(sqs: "SQSClient", queue_url: str) -> str:
    answer = await sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    return answer["Attributes"]["QueueArn"]
