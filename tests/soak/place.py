"""Queue, dead-letter queue, topic and subscriber on an emulator, and what comes out of them."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import aioboto3

from tests.soak.tickets import Sent, name_in

REGION = "us-east-1"
CREDENTIALS = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}


@dataclass
class Place:
    """One queue with all that belongs to it, and what has been sent and collected there.

    Attributes:
        sent: by name.
        names: of sent tickets by message id, which is what an outcome carries if the body could
            not be read.
        outcomes: published, by name: status and outcome id, in order.
        copies: names of dead letters that a worker wrote, in order.
        redriven: names of dead letters that the queue moved, in order.
    """

    sqs: Any
    queue_url: str
    dead_letter_url: str
    subscriber_url: str
    topic_arn: str
    sent: dict[str, Sent] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    copies: list[str] = field(default_factory=list)
    redriven: list[str] = field(default_factory=list)

    async def send(self, tickets: Sequence[Sent]) -> None:
        for start in range(0, len(tickets), 10):
            batch = tickets[start : start + 10]
            entries = [{"Id": str(i), "MessageBody": one.body} for i, one in enumerate(batch)]
            answer = await self.sqs.send_message_batch(QueueUrl=self.queue_url, Entries=entries)
            assert not answer.get("Failed")
            for accepted in answer["Successful"]:
                ticket = batch[int(accepted["Id"])]
                self.sent[ticket.name] = ticket
                self.names[accepted["MessageId"]] = ticket.name

    async def counts(self) -> tuple[int, int]:
        """Return how many messages of the queue are visible, and how many are hidden."""
        start = "ApproximateNumberOfMessages"
        names = [start, f"{start}NotVisible", f"{start}Delayed"]
        answer = await self.sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=names)
        visible, *hidden = (int(answer["Attributes"].get(name, 0)) for name in names)
        return visible, sum(hidden)

    async def collect(self, wait_seconds: int) -> int:
        """Take outcomes and dead letters; return how many there were."""
        outcomes, dead = await asyncio.gather(
            self._take(self.subscriber_url, wait_seconds), self._take(self.dead_letter_url, 0)
        )
        for message in outcomes:
            outcome = json.loads(message["Body"])
            name = self.names.get(outcome["ticket_id"], outcome["ticket_id"])
            self.outcomes[name].append((outcome["status"], outcome["outcome_id"]))
        for message in dead:
            is_copy = "code" in message.get("MessageAttributes", {})
            (self.copies if is_copy else self.redriven).append(name_in(message["Body"]))
        return len(outcomes) + len(dead)

    async def _take(self, queue_url: str, wait_seconds: int) -> list[Any]:
        answer = await self.sqs.receive_message(
            QueueUrl=queue_url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=wait_seconds,
            MessageAttributeNames=["All"],
        )
        messages: list[Any] = answer.get("Messages", [])
        if messages:
            entries = [
                {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                for index, message in enumerate(messages)
            ]
            await self.sqs.delete_message_batch(QueueUrl=queue_url, Entries=entries)
        return messages


@asynccontextmanager
async def open_place(
    emulator_url: str, *, visibility_seconds: int, max_receive_count: int
) -> AsyncIterator[Place]:
    """Make the queues and the topic, with names of their own."""
    session = aioboto3.Session(region_name=REGION, **CREDENTIALS)
    end = uuid4().hex[:8]
    async with (
        session.client("sqs", endpoint_url=emulator_url) as sqs,
        session.client("sns", endpoint_url=emulator_url) as sns,
    ):

        async def queue(name: str, **attributes: str) -> tuple[str, str]:
            made = await sqs.create_queue(QueueName=f"{name}-{end}", Attributes=attributes)
            url = made["QueueUrl"]
            asked = await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            return url, asked["Attributes"]["QueueArn"]

        dead_letter_url, dead_letter_arn = await queue("dead")
        redrive = {"deadLetterTargetArn": dead_letter_arn, "maxReceiveCount": max_receive_count}
        queue_url, _ = await queue(
            "tickets",
            RedrivePolicy=json.dumps(redrive),
            VisibilityTimeout=str(visibility_seconds),
        )
        subscriber_url, subscriber_arn = await queue("outcomes")
        topic = await sns.create_topic(Name=f"outcomes-{end}")
        await sns.subscribe(
            TopicArn=topic["TopicArn"],
            Protocol="sqs",
            Endpoint=subscriber_arn,
            Attributes={"RawMessageDelivery": "true"},
        )
        yield Place(sqs, queue_url, dead_letter_url, subscriber_url, topic["TopicArn"])
