"""The SNS adapter on a client that answers as it is told: what no emulator does on request."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from worker.decision.attributes import Attribute
from worker.errors import AwsUnavailable, AwsUnusable, Rejected
from worker.queue.sns import SnsPublisher


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PublishBatch")


@dataclass
class FakeSns:
    """Answers each call with the next of its answers, then takes everything."""

    answers: deque[Any] = field(default_factory=deque)
    calls: list[list[dict[str, Any]]] = field(default_factory=list)

    async def publish_batch(self, **asked: Any) -> Any:
        assert asked["TopicArn"].startswith("arn:")
        self.calls.append(asked["PublishBatchRequestEntries"])
        answer = self.answers.popleft() if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer


def publisher(sns: FakeSns, name: str = "outcomes", max_bytes: int = 1000) -> SnsPublisher:
    return SnsPublisher(cast("Any", sns), f"arn:aws:sns:us-east-1:1:{name}", max_bytes)


async def publish(to: SnsPublisher, *messages: str, group: str | None = None) -> list[Any]:
    attributes = {"status": Attribute("String", "decided")}
    return await asyncio.gather(
        *(
            to.publish(message, attributes, outcome_id=f"id-{message}", group_id=group)
            for message in messages
        ),
        return_exceptions=True,
    )


def failed(place: int, code: str, *, sender: bool) -> dict[str, Any]:
    return {"Failed": [{"Id": str(place), "Code": code, "SenderFault": sender}]}


async def test_outcomes_go_together_with_positional_ids() -> None:
    """Up to ten in a call, each with its attributes and its group."""
    sns = FakeSns()
    assert [None] * 12 == await publish(publisher(sns), *map(str, range(12)), group="tenant")

    assert [10, 2] == list(map(len, sns.calls))
    assert [str(place) for place in range(10)] == [entry["Id"] for entry in sns.calls[0]]
    assert {
        "Id": "1",
        "Message": "11",
        "MessageAttributes": {"status": {"DataType": "String", "StringValue": "decided"}},
        "MessageGroupId": "tenant",
    } == sns.calls[1][1]


async def test_a_fifo_topic_drops_repeats_by_outcome() -> None:
    """Its entries have a group and the outcome's id for deduplication."""
    sns = FakeSns()
    await publish(publisher(sns, "outcomes.fifo"), "a")

    (entry,) = sns.calls[0]
    assert ("id-a", "id-a") == (entry["MessageGroupId"], entry["MessageDeduplicationId"])


async def test_a_batch_has_no_more_bytes_than_the_topic_takes() -> None:
    """Its limit holds for one outcome and for all in a call."""
    sns = FakeSns()
    told = await publish(publisher(sns, max_bytes=300), "a" * 200, "b" * 200, "c" * 400)

    assert [1, 1] == list(map(len, sns.calls))
    assert [None, None] == told[:2]
    assert isinstance(told[2], Rejected)
    assert "outcome_too_large" == told[2].code


@pytest.mark.parametrize(
    ("code", "sender", "error"),
    [
        ("InternalError", False, AwsUnavailable),
        ("Throttled", False, AwsUnavailable),
        ("Throttled", True, AwsUnavailable),
        ("KMSDisabled", True, AwsUnavailable),
        ("KMSAccessDenied", True, AwsUnusable),
        ("InvalidParameter", True, Rejected),
        ("AuthorizationError", True, AwsUnusable),
    ],
)
async def test_a_refused_entry_ends_by_whose_fault_it_is(
    code: str, sender: bool, error: type[Exception]
) -> None:
    """SNS's fault: later. The outcome's: rejected. The role's: the process cannot go on."""
    sns = FakeSns(deque([failed(1, code, sender=sender)]))
    first, second, third = await publish(publisher(sns), "a", "b", "c")

    assert first is third is None
    assert error is type(second)


async def test_one_invalid_outcome_does_not_take_the_batch_along() -> None:
    """When SNS refuses the whole call as invalid, each goes alone and only the bad one fails."""
    sns = FakeSns(deque([refused("InvalidParameter"), {}, refused("InvalidParameter"), {}]))
    first, second, third = await publish(publisher(sns), "a", "b", "c")

    assert first is third is None
    assert isinstance(second, Rejected)
    assert "outcome_refused" == second.code
    assert [3, 1, 1, 1] == list(map(len, sns.calls))


@pytest.mark.parametrize(
    ("code", "error"), [("Throttling", AwsUnavailable), ("AuthorizationError", AwsUnusable)]
)
async def test_a_call_that_fails_is_everybodys(code: str, error: type[Exception]) -> None:
    """Nothing of it was published."""
    told = await publish(publisher(FakeSns(deque([refused(code)]))), "a", "b")

    assert [error, error] == list(map(type, told))


async def test_a_failure_among_singles_is_its_own() -> None:
    """When a refused batch goes one by one, what SNS cannot take now harms no other."""
    answers = deque([refused("InvalidParameter"), {}, refused("Throttling"), {}])
    first, second, third = await publish(publisher(FakeSns(answers)), "a", "b", "c")

    assert first is third is None
    assert AwsUnavailable is type(second)


async def test_a_topic_that_takes_nothing_is_not_the_outcomes_fault() -> None:
    """As long as it has taken nothing, an invalid call ends the process, not the ticket."""
    told = await publish(publisher(FakeSns(deque([refused("InvalidParameter")] * 3))), "a", "b")
    assert [AwsUnusable, AwsUnusable] == list(map(type, told))

    there = publisher(sns := FakeSns())
    assert [None] == await publish(there, "a")
    sns.answers.append(refused("InvalidParameter"))
    assert [Rejected] == list(map(type, await publish(there, "b")))
