"""Make the queues and the topic that compose.yaml's worker uses, on the emulator."""

import asyncio
import json

import aioboto3


async def make() -> None:
    """Make a ticket queue with its dead letters, a topic, and a queue of all outcomes."""
    session = aioboto3.Session()
    async with session.client("sqs") as sqs, session.client("sns") as sns:

        async def queue(name: str, **attributes: str) -> tuple[str, str]:
            made = await sqs.create_queue(QueueName=name, Attributes=attributes)
            told = await sqs.get_queue_attributes(
                QueueUrl=made["QueueUrl"], AttributeNames=["QueueArn"]
            )
            return made["QueueUrl"], told["Attributes"]["QueueArn"]

        _, dead = await queue("tickets-dead")
        redrive = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 5})
        tickets, _ = await queue("tickets", VisibilityTimeout="120", RedrivePolicy=redrive)
        outcomes, outcomes_arn = await queue("outcomes")
        topic = await sns.create_topic(Name="outcomes")
        await sns.subscribe(
            TopicArn=topic["TopicArn"],
            Protocol="sqs",
            Endpoint=outcomes_arn,
            Attributes={"RawMessageDelivery": "true"},
        )
        print(f"tickets: {tickets}\ntopic: {topic['TopicArn']}\noutcomes: {outcomes}")


if __name__ == "__main__":
    asyncio.run(make())
