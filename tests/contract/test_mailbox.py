"""A queue at a desk: our fake and the SQS adapter, on moto, keep the same promises."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import aioboto3
import pytest
from botocore.exceptions import ClientError

from tests.mailboxes import FakeMailbox
from worker.desk.letters import Letter
from worker.desk.mailbox import Mailbox
from worker.desk.sqs import SqsMailbox, open_mailbox
from worker.errors import AwsUnusable, UsageError
from worker.queue.aws import Connection


def connection(endpoint_url: str) -> Connection:
    session = aioboto3.Session("testing", "testing", region_name="us-east-1")
    return Connection(session, endpoint_url)


async def create(endpoint_url: str, name: str, **attributes: str) -> str:
    async with connection(endpoint_url).session.client("sqs", endpoint_url=endpoint_url) as sqs:
        answer = await sqs.create_queue(QueueName=name, Attributes=attributes)
        return answer["QueueUrl"]


@pytest.fixture(params=["fake", "moto"])
async def mailbox(request: pytest.FixtureRequest) -> AsyncIterator[Mailbox]:
    if request.param == "fake":
        yield FakeMailbox()
        return
    endpoint_url = request.getfixturevalue("emulator_url")
    queue_url = await create(endpoint_url, f"desk-{uuid.uuid4()}")
    async with open_mailbox(connection(endpoint_url), queue_url) as found:
        yield found


def make_letter(body: str, **fields: Any) -> Letter:
    return Letter(body, body, body, len(body.encode()), **fields)


async def receive(mailbox: Mailbox) -> list[Any]:
    return list(await mailbox.receive(wait_seconds=0, hide_seconds=60))


async def test_what_is_sent_is_received(mailbox: Mailbox) -> None:
    """Ten at once, with attributes and group, each with a handle of its own."""
    blob = {"DataType": "Binary", "BinaryValue": b"\0x"}
    text = {"DataType": "String", "StringValue": "für"}
    letters = [make_letter(f"body {n} ü") for n in range(9)]
    letters.append(make_letter("last", attributes={"blob": blob, "text": text}, group_id="g"))
    refused = await mailbox.send(letters)
    found = await receive(mailbox)
    [last] = [message for message in found if message.body == "last"]

    assert [] == list(refused)
    assert [letter.body for letter in letters] == [message.body for message in found]
    assert 10 == len({message.receipt_handle for message in found})
    assert (b"\0x", {"text": "für"}, "g") == (
        last.attributes["blob"]["BinaryValue"],
        last.texts(),
        last.group_id,
    )


async def test_what_is_received_is_hidden(mailbox: Mailbox) -> None:
    """Until it is released, and for good once it is deleted."""
    await mailbox.send([make_letter("a"), make_letter("b")])
    first = await receive(mailbox)
    hidden = await receive(mailbox)
    await mailbox.release(first)
    again = await receive(mailbox)
    left = await mailbox.delete(again)

    assert [] == hidden
    assert ["a", "b"] == sorted(message.body for message in again)
    assert 0 == left
    assert [] == await receive(mailbox)


async def test_a_queue_says_what_it_takes(emulator_url: str) -> None:
    """Largest message, dead-letter queue, how much it holds."""
    dead_url = await create(emulator_url, "dead")
    arn = "arn:aws:sqs:us-east-1:123456789012:dead"
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 5}}'
    queue_url = await create(emulator_url, "small", MaximumMessageSize="2048", RedrivePolicy=policy)
    async with open_mailbox(connection(emulator_url), queue_url) as mailbox:
        await mailbox.send([make_letter("a")])
        limits = await mailbox.limits()

    assert (2048, dead_url, 1) == (limits.max_bytes, limits.dead_letter_url, limits.messages)


async def test_a_queue_that_is_not_there_is_named(emulator_url: str) -> None:
    """No later attempt finds it."""
    async with open_mailbox(connection(emulator_url), f"{emulator_url}/1/none") as mailbox:
        with pytest.raises(AwsUnusable, match="none"):
            await mailbox.limits()
        with pytest.raises(AwsUnusable):
            await mailbox.send([make_letter("a")])


class Refusing:
    """An SQS that takes some entries, and says nothing about itself."""

    async def send_message_batch(self, **_: Any) -> Any:
        failed = [
            {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents"},
            {"Id": "2", "SenderFault": False, "Code": "InternalError"},
        ]
        return {"Successful": [{"Id": "0"}], "Failed": failed}

    async def delete_message_batch(self, **_: Any) -> Any:
        return {"Successful": [], "Failed": [{"Id": "0", "SenderFault": True, "Code": "x"}]}

    async def get_queue_attributes(self, **_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetQueueAttributes")


async def test_entries_that_failed_are_read() -> None:
    """A batch call answers 200 whatever became of its entries."""
    letters = [make_letter(name) for name in "abc"]
    mailbox = SqsMailbox(Refusing(), "https://sqs/q")  # type: ignore[arg-type]
    refused = await mailbox.send(letters)

    assert [("b", "InvalidMessageContents", True), ("c", "InternalError", False)] == [
        (refusal.letter.body, refusal.code, refusal.is_final) for refusal in refused
    ]


async def test_a_role_that_may_only_send_is_enough() -> None:
    """The smallest limit that any queue has is kept to then."""
    limits = await SqsMailbox(Refusing(), "https://sqs/q").limits()  # type: ignore[arg-type]

    assert (262_144, None) == (limits.max_bytes, limits.dead_letter_url)


async def test_another_url_is_refused() -> None:
    """A queue's name is not its URL."""
    with pytest.raises(UsageError, match="must be the URL of an SQS queue"):
        await open_mailbox(connection("http://127.0.0.1:1"), "tickets").__aenter__()
