"""Dead letters: grouped by reason without their text, and sent back without losing one."""

import asyncio
from typing import Any

import pytest

from tests.mailboxes import FakeMailbox
from tests.unit.queue.bench import make_bench
from tests.virtual_time import advance
from worker.desk.dead_letters import (
    CODE,
    REASON_ATTRIBUTES,
    Group,
    group_letters,
    letter_back,
    reason_of,
)
from worker.desk.mailbox import Received
from worker.desk.redrive import Redriver, list_letters
from worker.errors import AwsUnavailable, AwsUnusable

SECRET = "jane-doe"


def attribute(text: str) -> dict[str, Any]:
    return {"DataType": "String", "StringValue": text}


def make_dead(name: str, code: str | None = None, **fields: Any) -> Received:
    reason = {} if code is None else {"code": code, "where": "state", "message": "is gone"}
    attributes = {key: attribute(value) for key, value in reason.items()}
    return Received(name, f"{name}#0", f"body of {name}", attributes, **fields)


def make_mailbox(*messages: Received) -> FakeMailbox:
    mailbox = FakeMailbox(name="dead")
    for message in messages:
        mailbox.put(message)
    return mailbox


async def redrive(
    dead: FakeMailbox, queue: FakeMailbox, *reasons: str, most: int = 1000, is_fifo: bool = False
) -> tuple[int, int, int]:
    redriver = Redriver(dead=dead, queue=queue, is_fifo=is_fifo, on_step=[].append)
    result = await redriver.run(reasons or None, most=most)
    return result.sent, result.left, result.undeleted


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, "redriven"),
        ("document_gone", "document_gone"),
        ("too_large", "too_large"),
        (SECRET, "other"),
        ("Jane", "other"),
        ("x" * 65, "other"),
        ("", "other"),
    ],
)
def test_a_reason_is_a_word_of_ours(code: str | None, reason: str) -> None:
    """What others wrote there may be anybody's text, and is not shown."""
    assert reason == reason_of(make_dead("m", code))


def test_dead_letters_are_grouped_by_reason() -> None:
    """The most frequent first, each message once, with its span of time."""
    letters = [
        make_dead("a", "too_large", sent_at=5.0),
        make_dead("b", sent_at=7.0),
        make_dead("c", sent_at=3.0),
        make_dead("c", sent_at=3.0),
    ]

    assert [Group("redriven", 2, 3.0, 7.0), Group("too_large", 1, 5.0, 5.0)] == (
        group_letters(letters)
    )


def test_a_letter_goes_back_as_it_came() -> None:
    """Body, group and the sender's own attributes; the reason's are taken off."""
    theirs = {
        "tenant": {**attribute("a"), "StringListValues": [], "BinaryListValues": []},
        "blob": {"DataType": "Binary", "BinaryValue": b"x"},
    }
    rejected = make_dead("m", "too_large")
    message = Received("m", "h", "body", {**rejected.attributes, **theirs}, "group")
    back = letter_back(message, is_fifo=False)

    assert ("body", "group", None) == (back.body, back.group_id, back.deduplication_id)
    assert {
        "tenant": attribute("a"),
        "blob": {"DataType": "Binary", "BinaryValue": b"x"},
    } == back.attributes
    assert len("body" + "tenant" + "String" + "a" + "blob" + "Binary" + "x") == back.size_bytes


async def test_a_reason_is_what_the_worker_writes() -> None:
    """What it adds to a dead letter is what is taken off, and by which it is grouped."""
    bench = make_bench()
    await bench.carry("{")
    [(_, reason)] = bench.inbox.dead_letters

    assert REASON_ATTRIBUTES == set(reason)
    assert "invalid_ticket" == reason[CODE]


def test_attributes_that_are_no_reason_stay() -> None:
    """A sender's `where` and `message` are its own when the worker gave no reason."""
    message = Received("m", "h", "body", {"where": attribute("x"), "message": attribute("y")})

    assert {"where", "message"} == set(letter_back(message, is_fifo=False).attributes)


def test_a_fifo_queue_gets_group_and_id() -> None:
    """The dead letter's own id: sending it twice is one message."""
    back = letter_back(make_dead("m"), is_fifo=True)

    assert ("m", "m") == (back.group_id, back.deduplication_id)


async def test_listing_leaves_everything_visible() -> None:
    """Looking changes nothing, also when a call fails on the way."""
    dead = make_mailbox(*[make_dead(f"m-{n}", "too_large") for n in range(25)])
    groups = await list_letters(dead, most=1000)
    few = await list_letters(dead, most=10)
    first_visible = dead.visible()
    dead.faults.once["receive"].append(AwsUnusable("no"))

    assert [25] == [group.count for group in groups]
    assert [10] == [group.count for group in few]
    assert 25 == len(first_visible)
    with pytest.raises(AwsUnusable):
        await list_letters(dead, most=1000)
    assert 25 == len(dead.visible())


async def test_all_are_sent_back_then_deleted() -> None:
    """By tens; the queue has each once and the dead letters are gone."""
    dead = make_mailbox(*[make_dead(f"m-{n}", "too_large") for n in range(25)])
    queue = FakeMailbox()

    assert (25, 0, 0) == await redrive(dead, queue)
    assert sorted(f"body of m-{n}" for n in range(25)) == sorted(queue.bodies())
    assert {} == dead.messages


async def test_only_the_chosen_are_sent_back() -> None:
    """The others are visible again."""
    dead = make_mailbox(make_dead("a", "too_large"), make_dead("b"), make_dead("c", SECRET))
    queue = FakeMailbox()

    assert (1, 0, 0) == await redrive(dead, queue, "redriven")
    assert ["body of b"] == queue.bodies()
    assert ["a", "c"] == dead.visible()


async def test_what_the_queue_does_not_confirm_stays_a_dead_letter() -> None:
    """Refused for good: counted, not deleted, visible again."""
    dead = make_mailbox(*[make_dead(f"m-{n}") for n in range(3)])
    queue = FakeMailbox()
    queue.refusals.append({1: ("InvalidMessageContents", True)})

    assert (2, 1, 0) == await redrive(dead, queue)
    assert ["m-1"] == dead.visible()
    assert ["body of m-0", "body of m-2"] == queue.bodies()


async def test_a_send_that_fails_leaves_every_letter_in_one_place_at_least() -> None:
    """What was confirmed before is deleted, the rest stays; nothing is lost."""
    dead = make_mailbox(*[make_dead(f"m-{n}") for n in range(3)])
    queue = FakeMailbox()
    queue.refusals.append({1: ("InternalError", False)})
    running = asyncio.create_task(redrive(dead, queue))
    await advance(0.1)
    queue.faults.always["send"] = AwsUnavailable("throttled")
    with pytest.raises(AwsUnavailable):
        await running
    everywhere = set(queue.bodies()) | set(dead.bodies())

    assert {f"body of m-{n}" for n in range(3)} == everywhere
    assert [("delete", "dead", ("m-0", "m-2"))] == dead.journal.of("delete")


async def test_what_cannot_be_deleted_is_counted() -> None:
    """It is in both queues then, and a repeat has the same outcome id."""
    dead = make_mailbox(make_dead("a"))
    dead.undeletable.add("a")

    assert (1, 0, 1) == await redrive(dead, FakeMailbox())


async def test_at_most_so_many_are_looked_at() -> None:
    """A dead-letter queue of a million is worked off in parts."""
    dead = make_mailbox(*[make_dead(f"m-{n}") for n in range(25)])

    assert (10, 0, 0) == await redrive(dead, FakeMailbox(), most=10)
    assert 15 == len(dead.visible())
