"""Opening a delivery: what it may lead to, what it may not, and what that costs."""

import gzip
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.factories import make_body, make_delivery
from tests.fakes import FakeDocuments
from tests.unit.queue.bench import Bench, make_bench
from tests.unit.queue.test_envelope import OLDER, make_envelope, make_pointer
from worker.app import open_opener
from worker.decision.ticket import Ticket
from worker.errors import AwsUnavailable, Rejected
from worker.queue.locations import AllowList, Prefix
from worker.queue.opening import Bookcase, Opener
from worker.settings import load_settings

LIMIT = 200_000
SECRET = "jane-doe"


def make_opener(documents: FakeDocuments, *allowed: str) -> Opener:
    prefixes = tuple(map(Prefix.parse, allowed or ("s3://papers/a",)))
    return Opener(100_000, Bookcase(documents, AllowList(prefixes), LIMIT))


def holding(content: bytes, key: str = "a/b", content_type: str = "text/plain") -> FakeDocuments:
    return FakeDocuments(objects={("papers", key): (content, content_type)})


async def opened(opener: Opener, body: str) -> Ticket:
    delivery = make_delivery(body=body)
    found = await opener.unwrap(delivery)
    return await opener.with_state(await opener.ticket(delivery, found))


async def refusal(opener: Opener, body: str) -> Rejected:
    with pytest.raises(Rejected) as caught:
        await opened(opener, body)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("words", [1, 10_000])
async def test_a_ticket_is_found_wherever_it_is(words: int) -> None:
    """Raw, in an envelope, in S3, and in S3 by way of an envelope: the same ticket."""
    body = make_body(state="word " * words)
    opener = make_opener(holding(body.encode()))
    ways = [body, make_envelope(body), make_pointer(), make_envelope(make_pointer(OLDER))]
    tickets = [await opened(opener, way) for way in ways]

    assert [tickets[0]] * 4 == tickets
    assert "word " * words == tickets[0].state


async def test_a_ticket_in_s3_may_be_larger_than_a_message() -> None:
    """That is what it lies there for."""
    body = make_body(state="x" * 150_000)

    assert 150_000 == len(
        str((await opened(make_opener(holding(body.encode())), make_pointer())).state)
    )
    assert "too_large" == (await refusal(make_opener(FakeDocuments()), body)).code


@pytest.mark.parametrize(
    ("content", "key", "content_type", "state"),
    [
        (b'{"b": 1, "a": 2}', "a/x.txt", "text/plain", '{"b": 1, "a": 2}'),
        (b'{"b": 1, "a": 2}', "a/x.json", "text/plain", {"b": 1, "a": 2}),
        (b'{"b": 1, "a": 2}', "a/x", "application/json", {"b": 1, "a": 2}),
        (gzip.compress(b'{"b": 1}', mtime=0), "a/x.json.gz", "application/gzip", {"b": 1}),
        (gzip.compress("für".encode(), mtime=0), "a/x", "text/plain", "für"),
        (b"x" * 150_000, "a/x", "text/plain", "x" * 150_000),
    ],
)
async def test_a_state_is_read_from_its_document(
    content: bytes, key: str, content_type: str, state: Any
) -> None:
    """The ticket is then as if it had carried the state itself."""
    opener = make_opener(holding(content, key, content_type))
    ticket = await opened(opener, make_body(state=..., state_uri=f"s3://papers/{key}"))

    assert (json.dumps(state), None) == (json.dumps(ticket.state), ticket.state_uri)


@pytest.mark.parametrize("place", ["papers/b", "papers/ab", "other/a/b"])
async def test_what_is_not_allowed_is_not_asked_for(place: str) -> None:
    """A sender cannot make the worker read what its role may read but its list does not name."""
    documents = FakeDocuments(objects={tuple(place.split("/", 1)): (b"{}", "")})  # type: ignore[dict-item]
    opener = make_opener(documents)
    bucket, key = place.split("/", 1)
    faults = [
        await refusal(opener, make_body(state=..., state_uri=f"s3://{place}")),
        await refusal(opener, make_pointer(place={"s3BucketName": bucket, "s3Key": key})),
    ]

    assert ["bucket_not_allowed"] * 2 == [fault.code for fault in faults]
    assert [] == documents.journal.entries


async def test_a_declared_size_over_the_limit_is_not_asked_for() -> None:
    """The sender's own number is enough to refuse it."""
    documents = holding(b"{}")
    size = {"ExtendedPayloadSize": {"Type": "Number", "Value": str(LIMIT + 1)}}
    body = make_envelope(make_pointer(), MessageAttributes=size)

    assert "too_large" == (await refusal(make_opener(documents), body)).code
    assert [] == documents.journal.entries


async def test_without_an_allow_list_nothing_is_followed() -> None:
    """A pointer is rejected at once; a state_uri is left for the evaluator to reject."""
    opener = Opener(100_000)
    body = make_body(state=..., state_uri="s3://papers/a/b")

    assert "bucket_not_allowed" == (await refusal(opener, make_pointer())).code
    assert "s3://papers/a/b" == (await opened(opener, body)).state_uri


@pytest.mark.parametrize("body", ["{", "[]", make_envelope("{"), make_pointer(), "s3"])
async def test_what_is_no_ticket_is_rejected(body: str) -> None:
    """Wherever it came from, the reason is the same kind of reason."""
    documents = holding(b"{" if body != "s3" else b"\xff")

    code = (await refusal(make_opener(documents), make_pointer() if body == "s3" else body)).code
    assert ("invalid_document" if body == "s3" else "invalid_ticket") == code


def make_reading_bench(documents: FakeDocuments) -> Bench:
    return make_bench(opener=make_opener(documents))


async def test_a_document_is_answered_like_a_state() -> None:
    """The outcome id is that of the same state in the ticket: only what is asked about counts."""
    bench = make_reading_bench(holding(b"the text"))
    await bench.carry(make_body(state=..., state_uri="s3://papers/a/b"))
    await bench.carry(make_body(state="the text"))
    first, second = bench.publisher.published

    assert "decided" == first.outcome["status"]
    assert first.outcome_id == second.outcome_id


async def test_a_document_that_is_gone_is_rejected_with_the_tickets_id() -> None:
    """Dead letter and rejection, and the producer sees which ticket it was."""
    bench = make_reading_bench(FakeDocuments())
    await bench.carry(
        make_body(state=..., state_uri=f"s3://papers/a/{SECRET}", metadata={"tenant": "a"})
    )
    [published] = bench.publisher.published

    assert ("t-1", "document_gone", "state_uri", {"tenant": "a"}) == (
        published.outcome["ticket_id"],
        published.outcome["error"]["code"],
        published.outcome["error"]["where"],
        published.outcome["metadata"],
    )
    assert SECRET not in json.dumps(published.outcome)
    assert 1 == len(bench.inbox.dead_letters)


async def test_a_document_that_may_come_later_releases_the_delivery() -> None:
    """Denied or throttled is mended by someone else: the worker goes on, the ticket comes back."""
    documents = holding(b"the text")
    documents.faults.once["read"].append(AwsUnavailable("denied"))
    bench = make_reading_bench(documents)
    await bench.carry(make_body(state=..., state_uri="s3://papers/a/b"))

    assert ["release"] == [entry[0] for entry in bench.journal.named("release", "delete")]
    assert [] == bench.publisher.published
    assert not bench.lifecycle.stopping.is_set()


class NoAws:
    """A connection that nobody may use."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"AWS was asked for {name}")


async def test_without_an_allow_list_no_client_for_s3_is_made() -> None:
    """Who names no bucket needs no permission, no endpoint and no time for one."""
    async with AsyncExitStack() as stack:
        opener = await open_opener(stack, load_settings({}), NoAws())  # type: ignore[arg-type]
        allowing = load_settings({"allow_bucket": ("s3://papers",)})
        with pytest.raises(AssertionError, match="AWS was asked for"):
            await open_opener(stack, allowing, NoAws())  # type: ignore[arg-type]

    assert opener.bookcase is None
