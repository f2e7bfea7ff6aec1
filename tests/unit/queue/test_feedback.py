"""The feedback queue: each message is counted and deleted, and none is lost without a word."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.factories import make_outcome
from tests.fakes import FakeInbox
from worker.errors import AwsUnavailable, AwsUnusable, EntryRefused, WorkerError
from worker.lifecycle import Lifecycle
from worker.overrides import Overrides
from worker.queue.feedback import FeedbackConsumer

BODY = json.dumps({"ticket_id": "t-1", "question": "desk", "decided": "tech"})


@asynccontextmanager
async def reading(
    inbox: FakeInbox, overrides: Overrides, *, has_dead_letters: bool = True
) -> AsyncIterator[Lifecycle]:
    lifecycle = Lifecycle()
    consumer = FeedbackConsumer(inbox, overrides, lifecycle, has_dead_letters)
    task = asyncio.create_task(consumer.run())
    try:
        yield lifecycle
    finally:
        lifecycle.stop("the test is over")
        await task


def known() -> Overrides:
    overrides = Overrides(lambda: frozenset(("desk",)))
    overrides.note(make_outcome())
    return overrides


async def test_a_message_is_counted_and_deleted() -> None:
    """Also one that came through a topic."""
    inbox, overrides = FakeInbox(), known()
    inbox.put(BODY)
    told = json.dumps({"ticket_id": "t-2", "question": "desk", "decided": 1, "answer": "1"})
    inbox.put(
        json.dumps({"Type": "Notification", "MessageId": "m", "TopicArn": "arn:x", "Message": told})
    )
    async with reading(inbox, overrides):
        await inbox.journal.until("delete", times=2)

    assert {"desk": {"overturned": 1, "upheld": 1}} == overrides.told()
    assert {} == inbox.messages


async def test_what_is_no_feedback_goes_to_the_dead_letters() -> None:
    """With the reason; the others are taken."""
    inbox, overrides = FakeInbox(), known()
    inbox.put("{")
    inbox.put(BODY)
    async with reading(inbox, overrides):
        await inbox.journal.until("delete", times=2)

    [(_, reason)] = inbox.dead_letters
    assert "invalid_feedback" == reason["code"]
    assert {"desk": {"overturned": 1}} == overrides.told()


async def test_without_dead_letters_it_is_given_back() -> None:
    """The queue's owner may give it one later."""
    inbox = FakeInbox()
    inbox.put("{")
    async with reading(inbox, known(), has_dead_letters=False):
        await inbox.journal.until("release")

    assert 1 == len(inbox.messages)


@pytest.mark.parametrize("error", [AwsUnavailable("x"), EntryRefused("x"), AwsUnusable("x")])
async def test_a_delete_that_fails_counts_once(error: WorkerError) -> None:
    """The message comes again when its visibility ends."""
    inbox, overrides = FakeInbox(), known()
    inbox.faults.once["delete"].append(error)
    inbox.put(BODY)
    async with reading(inbox, overrides) as lifecycle:
        await inbox.journal.until("delete", times=2)
        assert lifecycle.failure is None

    assert {"desk": {"overturned": 1}} == overrides.told()
    assert {} == inbox.messages


async def test_a_poll_that_fails_is_tried_again_and_an_unusable_queue_ends_the_process() -> None:
    """As with tickets."""
    inbox = FakeInbox()
    inbox.faults.once["receive"] += [AwsUnavailable("throttled"), AwsUnusable("denied")]
    async with reading(inbox, known()) as lifecycle:
        await lifecycle.stopping.wait()

    assert isinstance(lifecycle.failure, AwsUnusable)
    assert 2 == len(inbox.journal.named("receive"))
