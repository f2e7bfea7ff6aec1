"""Inbox and publisher: our fakes and the adapters, on each emulator, keep the same promises."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

import aioboto3
import pytest

from tests.emulators import CREDENTIALS, REGION
from tests.fakes import FakeInbox, FakePublisher
from worker.decision.attributes import Attribute
from worker.errors import AwsUnavailable, AwsUnusable, Rejected
from worker.ports import Delivery, Inbox, Publisher
from worker.queue.aws import Connection
from worker.queue.sns import open_publisher
from worker.queue.sqs import SqsInbox, open_inbox

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
X_RAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
ON = ["fake", "moto", pytest.param("ministack", marks=pytest.mark.emulators)]
EMULATED = ON[1:]


class Post(Protocol):
    """A queue as its producer sees it."""

    @property
    def inbox(self) -> Inbox: ...

    async def put(self, body: str, **fields: Any) -> None: ...

    async def dead_letters(self) -> list[tuple[str, Mapping[str, str]]]: ...


@dataclass
class FakePost:
    inbox: FakeInbox

    async def put(self, body: str, **fields: Any) -> None:
        self.inbox.put(body, **fields)

    async def dead_letters(self) -> list[tuple[str, Mapping[str, str]]]:
        return self.inbox.dead_letters


@dataclass
class EmulatedPost:
    inbox: SqsInbox
    sqs: Any
    url: str
    dead_url: str

    async def put(
        self,
        body: str,
        *,
        group_id: str | None = None,
        attributes: Mapping[str, str] | None = None,
        trace_header: str = "",
    ) -> None:
        texts = {name: _text(value) for name, value in (attributes or {}).items()}
        system = {"AWSTraceHeader": _text(trace_header)} if trace_header else {}
        await self.sqs.send_message(
            QueueUrl=self.url,
            MessageBody=body,
            MessageAttributes=texts,
            MessageSystemAttributes=system,
            **({"MessageGroupId": group_id} if group_id else {}),
        )

    async def dead_letters(self) -> list[tuple[str, Mapping[str, str]]]:
        answer = await self.sqs.receive_message(
            QueueUrl=self.dead_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        return [
            (
                message["Body"],
                {n: a["StringValue"] for n, a in message.get("MessageAttributes", {}).items()},
            )
            for message in answer.get("Messages", [])
        ]


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def _session() -> aioboto3.Session:
    return aioboto3.Session(**CREDENTIALS, region_name=REGION)


def _url(request: pytest.FixtureRequest) -> str:
    name = "emulator_url" if request.param == "moto" else "ministack_url"
    url: str = request.getfixturevalue(name)
    return url


async def _arn(sqs: Any, url: str) -> str:
    answer = await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn: str = answer["Attributes"]["QueueArn"]
    return arn


@pytest.fixture(params=ON)
async def post(request: pytest.FixtureRequest) -> AsyncIterator[Post]:
    if request.param == "fake":
        yield FakePost(FakeInbox(wait_seconds=1, visibility_seconds=45))
        return
    endpoint = _url(request)
    async with AsyncExitStack() as stack:
        sqs = await stack.enter_async_context(_session().client("sqs", endpoint_url=endpoint))
        name = f"tickets-{uuid.uuid4()}"
        dead = (await sqs.create_queue(QueueName=f"{name}-dead"))["QueueUrl"]
        redrive = {"deadLetterTargetArn": await _arn(sqs, dead), "maxReceiveCount": 5}
        settings = {"VisibilityTimeout": "45", "RedrivePolicy": json.dumps(redrive)}
        url = (await sqs.create_queue(QueueName=name, Attributes=settings))["QueueUrl"]
        opened = open_inbox(
            Connection(_session(), endpoint), url, wait_seconds=1, visibility_seconds=None,
            connections=12,
        )  # fmt: skip
        yield EmulatedPost(await stack.enter_async_context(opened), sqs, url, dead)


async def receive_all(inbox: Inbox, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < count:
        found += await inbox.receive(min(10, count - len(found)))
    return found


async def test_what_is_sent_is_received(post: Post) -> None:
    """Body, group, trace and count, each delivery with a handle of its own, ten at most."""
    for number in range(12):
        await post.put(f"body {number} ü", group_id="tenant")
    await post.put("last", attributes={"traceparent": PARENT}, trace_header=X_RAY)
    found = await receive_all(post.inbox, 13)

    assert [f"body {number} ü" for number in range(12)] == [one.body for one in found[:12]]
    assert {"tenant"} == {one.group_id for one in found[:12]}
    assert {1} == {one.receive_count for one in found}
    assert 13 == len({one.receipt_handle for one in found})
    assert ({"traceparent": PARENT}, X_RAY) == (found[-1].attributes, found[-1].trace_header)
    assert [] == list(await post.inbox.receive(10))


async def test_the_lease_is_the_queues_own_visibility(post: Post) -> None:
    """Unless another is set, what the queue says is what leases count with."""
    assert 45 == post.inbox.visibility_seconds  # type: ignore[attr-defined]


async def test_what_is_released_comes_again(post: Post) -> None:
    """At once, or after the delay; the count tells that it came before."""
    await post.put("now")
    await post.put("later")
    now, later = await receive_all(post.inbox, 2)
    await post.inbox.release(now, 0)
    await post.inbox.release(later, 600)
    again = await post.inbox.receive(10)

    assert [("now", 2)] == [(one.body, one.receive_count) for one in again]
    assert [] == list(await post.inbox.receive(10))


async def test_what_is_deleted_together_is_gone(post: Post) -> None:
    """Many at once, in batches of the adapter's own."""
    for number in range(13):
        await post.put(str(number))
    found = await receive_all(post.inbox, 13)
    await asyncio.gather(*map(post.inbox.delete, found))

    for one in found:
        with pytest.raises(AwsUnavailable):
            await post.inbox.release(one, 0)
    assert [] == list(await post.inbox.receive(10))


async def test_a_bad_handle_harms_no_other(post: Post) -> None:
    """One refused entry of a batch: of extensions it is named, of deletions it fails alone."""
    for number in range(3):
        await post.put(str(number))
    first, second, third = await receive_all(post.inbox, 3)
    bad = replace(second, receipt_handle="bad")

    assert [bad] == list(await post.inbox.extend([first, bad, third], 60))
    told = await asyncio.gather(
        *map(post.inbox.delete, [first, bad, third]), return_exceptions=True
    )
    assert told[0] is told[2] is None
    assert isinstance(told[1], AwsUnavailable)
    await post.inbox.release(second, 0)
    assert ["1"] == [one.body for one in await post.inbox.receive(10)]


async def test_a_dead_letter_carries_its_reason(post: Post) -> None:
    """It is a copy: the original stays until it is deleted."""
    await post.put("bad ticket")
    [delivery] = await receive_all(post.inbox, 1)
    await post.inbox.dead_letter(delivery, {"code": "invalid_ticket", "where": "questions"})

    [(body, reason)] = await post.dead_letters()
    assert "bad ticket" == body
    assert {"code": "invalid_ticket", "where": "questions"} == dict(reason)
    await post.inbox.delete(delivery)


# --- the topic ------------------------------------------------------------------------------------


class Topic(Protocol):
    """A topic as its subscriber sees it, with raw delivery to a queue.

    Attributes:
        carries_groups: whether a standard topic hands a message's group on, as AWS's do.
    """

    carries_groups: bool

    @property
    def publisher(self) -> Publisher: ...

    async def delivered(self, count: int) -> list[tuple[Any, Mapping[str, str], str | None]]: ...


@dataclass
class FakeTopic:
    publisher: FakePublisher
    carries_groups: bool = True

    async def delivered(self, count: int) -> list[tuple[Any, Mapping[str, str], str | None]]:
        assert count == len(self.publisher.published)
        return [
            (one.outcome, {name: a.value for name, a in one.attributes.items()}, one.group_id)
            for one in self.publisher.published
        ]


@dataclass
class EmulatedTopic:
    publisher: Publisher
    sqs: Any
    url: str
    carries_groups: bool

    async def delivered(self, count: int) -> list[tuple[Any, Mapping[str, str], str | None]]:
        found: list[tuple[Any, Mapping[str, str], str | None]] = []
        while True:
            answer = await self.sqs.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=10,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["MessageGroupId"],
                WaitTimeSeconds=0 if len(found) >= count else 1,
            )
            messages = answer.get("Messages", [])
            if not messages and len(found) >= count:
                return found
            for message in messages:
                attributes = message.get("MessageAttributes", {})
                texts = {name: one["StringValue"] for name, one in attributes.items()}
                group = message.get("Attributes", {}).get("MessageGroupId")
                found.append((json.loads(message["Body"]), texts, group))
                await self.sqs.delete_message(
                    QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"]
                )


async def _topic(
    stack: AsyncExitStack, request: pytest.FixtureRequest, *, fifo: bool
) -> EmulatedTopic:
    endpoint = _url(request)
    carries_groups = request.param != "ministack"
    sqs = await stack.enter_async_context(_session().client("sqs", endpoint_url=endpoint))
    sns = await stack.enter_async_context(_session().client("sns", endpoint_url=endpoint))
    name = f"outcomes-{uuid.uuid4()}" + (".fifo" if fifo else "")
    kind: Any = {"FifoQueue": "true"} if fifo else {}
    url = (await sqs.create_queue(QueueName=name, Attributes=kind))["QueueUrl"]
    kind = {"FifoTopic": "true"} if fifo else {}
    arn = (await sns.create_topic(Name=name, Attributes=kind))["TopicArn"]
    await sns.subscribe(
        TopicArn=arn,
        Protocol="sqs",
        Endpoint=await _arn(sqs, url),
        Attributes={"RawMessageDelivery": "true"},
    )
    opened = open_publisher(Connection(_session(), endpoint), arn, connections=12)
    publisher = await stack.enter_async_context(opened)
    return EmulatedTopic(publisher, sqs, url, carries_groups=carries_groups)


@pytest.fixture(params=ON)
async def topic(request: pytest.FixtureRequest) -> AsyncIterator[Topic]:
    if request.param == "fake":
        yield FakeTopic(FakePublisher())
        return
    async with AsyncExitStack() as stack:
        yield await _topic(stack, request, fifo=False)


@pytest.fixture(params=EMULATED)
async def emulated_topic(request: pytest.FixtureRequest) -> AsyncIterator[Topic]:
    async with AsyncExitStack() as stack:
        yield await _topic(stack, request, fifo=False)


@pytest.fixture(params=EMULATED)
async def fifo_topic(request: pytest.FixtureRequest) -> AsyncIterator[Topic]:
    async with AsyncExitStack() as stack:
        yield await _topic(stack, request, fifo=True)


async def publish(
    topic: Topic, outcomes: Sequence[str], *, group_id: str | None = None
) -> list[Any]:
    attributes = {
        "status": Attribute("String", "decided"),
        "answer.anger": Attribute("Number", "0.25000"),
    }
    return await asyncio.gather(
        *(
            topic.publisher.publish(
                json.dumps({"name": one}), attributes, outcome_id=one, group_id=group_id
            )
            for one in outcomes
        ),
        return_exceptions=True,
    )


async def test_what_is_published_arrives(topic: Topic) -> None:
    """Thirteen at once, each with its attributes and with the ticket's group."""
    names = [f"outcome {number} ü" for number in range(13)]
    assert [None] * 13 == await publish(topic, names, group_id="tenant")
    found = await topic.delivered(13)

    assert sorted(names) == sorted(body["name"] for body, *_ in found)
    assert [{"status": "decided", "answer.anger": "0.25000"}] * 13 == [
        texts for _, texts, _ in found
    ]
    if topic.carries_groups:
        assert {"tenant"} == {group for *_, group in found}


async def test_what_is_too_large_is_rejected_alone(emulated_topic: Topic) -> None:
    """Its neighbours are published; the size is named."""
    first, second, third = await publish(emulated_topic, ["a", "b" * 270_000, "c"])

    assert first is third is None
    assert isinstance(second, Rejected)
    assert "outcome_too_large" == second.code
    assert ["a", "c"] == sorted(body["name"] for body, *_ in await emulated_topic.delivered(2))


async def test_batches_stay_within_the_topics_bytes(emulated_topic: Topic) -> None:
    """Five outcomes of 100 kB do not fit one call, and all arrive."""
    told = await publish(emulated_topic, [str(number) * 100_000 for number in range(5)])

    assert [None] * 5 == told
    assert 5 == len(await emulated_topic.delivered(5))


async def test_a_fifo_topic_drops_repeats(fifo_topic: Topic) -> None:
    """The same outcome twice arrives once."""
    assert [None] == await publish(fifo_topic, ["a"], group_id="one")
    assert [None] == await publish(fifo_topic, ["a"], group_id="one")
    assert [None] == await publish(fifo_topic, ["b"], group_id="one")

    assert ["a", "b"] == [body["name"] for body, *_ in await fifo_topic.delivered(2)]


@pytest.mark.parametrize("endpoint", EMULATED)
async def test_a_topic_that_is_not_there(endpoint: str, request: pytest.FixtureRequest) -> None:
    """It shows at start."""
    url = request.getfixturevalue("emulator_url" if endpoint == "moto" else "ministack_url")
    arn = f"arn:aws:sns:{REGION}:123456789012:no-such-topic"
    with pytest.raises(AwsUnusable):
        async with open_publisher(Connection(_session(), url), arn, connections=2):
            pass
