"""Outcomes over the topic's limit: readable by AWS's extended clients, and never half published."""

import json

import pytest

from tests.fakes import FakeDocuments, FakePublisher, Journal
from worker.decision.attributes import Attribute
from worker.errors import AwsUnavailable
from worker.queue.envelope import unwrap
from worker.queue.locations import Location, Prefix
from worker.queue.offload import OffloadingPublisher, message_bytes, pointer_attributes

STATUS = {"status": Attribute("String", "decided")}
LIMIT = 500


class Bench:
    def __init__(self) -> None:
        self.journal = Journal()
        self.topic = FakePublisher(self.journal)
        self.s3 = FakeDocuments(self.journal)
        self.publisher = OffloadingPublisher(
            self.topic, self.s3, Prefix.parse("s3://outcomes/large/"), LIMIT
        )

    async def publish(self, size: int) -> str:
        """Publish a message of *size* bytes, attributes included; return it."""
        message = json.dumps("x" * (size - message_bytes('""', STATUS)))
        assert size == message_bytes(message, STATUS)
        await self.publisher.publish(message, STATUS, outcome_id="abc", group_id="g")
        return message


async def test_what_fits_is_published_as_it_is() -> None:
    """The limit is the last size that fits, and S3 is not asked."""
    bench = Bench()
    message = await bench.publish(LIMIT)
    [published] = bench.topic.published

    assert (json.loads(message), STATUS) == (published.outcome, published.attributes)
    assert [("publish", "abc")] == bench.journal.entries


async def test_what_does_not_fit_lies_in_s3() -> None:
    """First the object, then the pointer; id, group and filter attributes are the outcome's."""
    bench = Bench()
    message = await bench.publish(LIMIT + 1)
    [published] = bench.topic.published
    found = unwrap(json.dumps(published.outcome))

    assert ["write", "publish"] == [entry[0] for entry in bench.journal.entries]
    assert Location("outcomes", "large/abc.json") == found.pointer
    assert {("outcomes", "large/abc.json"): (message.encode(), "application/json")} == (
        bench.s3.objects
    )
    assert ("abc", "g") == (published.outcome_id, published.group_id)
    size = Attribute("Number", str(len(message.encode())))
    assert {**STATUS, "ExtendedPayloadSize": size} == published.attributes


async def test_nothing_is_published_when_s3_does_not_take_it() -> None:
    """The delivery is released then, and comes back."""
    bench = Bench()
    bench.s3.faults.once["write"].append(AwsUnavailable("throttled"))
    with pytest.raises(AwsUnavailable):
        await bench.publish(LIMIT + 1)

    assert [] == bench.topic.published


@pytest.mark.parametrize(
    ("others", "answers", "kept"), [(3, 3, 3), (6, 3, 3), (7, 3, 2), (9, 3, 0)]
)
def test_there_are_never_more_than_ten_attributes(others: int, answers: int, kept: int) -> None:
    """Raw delivery would drop the message; the last answers give way."""
    names = [*(f"a{n}" for n in range(others)), *(f"answer.q{n}" for n in range(answers))]
    found = pointer_attributes({name: Attribute("String", "x") for name in names}, 9)

    assert [*names[: others + kept], "ExtendedPayloadSize"] == list(found)
    assert len(found) <= 10
