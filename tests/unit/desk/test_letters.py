"""Letters and their batches: what goes on the queue fits it, and a worker can read it."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.factories import QUESTIONS
from worker.decision.ticket import parse_ticket
from worker.desk.letters import Asked, Letter, batches
from worker.desk.sources import Skipped, SourceDocument
from worker.queue.locations import Prefix

FIELDS = {"questions": QUESTIONS, "metadata": {"batch": "monday"}}


def make_letter(name: str = "a", size_bytes: int = 100) -> Letter:
    return Letter(name, name, "x", size_bytes)


def letter(state: Any, **asked: Any) -> Letter:
    found = Asked(FIELDS, **asked).letter(SourceDocument("a.txt", "a.txt", state))
    assert isinstance(found, Letter)
    return found


@given(st.text(st.characters(codec="utf-8"), min_size=1))
@example("\ufffe\uffff\x00\x1b")
def test_a_worker_reads_what_was_written(state: str) -> None:
    """Any text survives, and the body has only characters that SQS takes."""
    found = letter(state)
    ticket = parse_ticket(found.body)

    assert ("a.txt", state, {"batch": "monday"}) == (
        ticket.ticket_id,
        ticket.state,
        ticket.metadata,
    )
    assert list(QUESTIONS) == list(ticket.questions or {})
    assert len(found.body.encode()) == found.size_bytes
    assert not set(found.body) & {"\ufffe", "\uffff", *map(chr, range(32))}


def test_the_same_document_is_the_same_letter() -> None:
    """Whatever was sent is known by its hash, and another question makes another letter."""
    other = Asked({"question_set": "triage@2"}).letter(SourceDocument("a.txt", "a.txt", "x"))

    assert letter("x").sha256() == letter("x").sha256()
    assert letter("x").sha256() != letter("y").sha256()
    assert isinstance(other, Letter)
    assert other.sha256() != letter("x").sha256()


def test_a_large_document_goes_to_s3() -> None:
    """By the hash of its content, structured or not; without a bucket it is named."""
    bucket = Prefix.parse("s3://papers/in/")
    text = letter("für" * 1000, max_bytes=1000, bucket=bucket)
    tree = letter({"b": "x" * 1000, "a": 1}, max_bytes=1000, bucket=bucket)

    assert text.upload is not None
    assert tree.upload is not None
    assert ("papers", "für" * 1000, "text/plain; charset=utf-8") == (
        text.upload.bucket,
        text.upload.content.decode(),
        text.upload.content_type,
    )
    assert ('{"b":"' + "x" * 1000 + '","a":1}', "application/json") == (
        tree.upload.content.decode(),
        tree.upload.content_type,
    )
    assert f"s3://papers/{tree.upload.key}" == parse_ticket(tree.body).state_uri
    assert tree.upload.key.startswith("in/")
    assert tree.upload.key.endswith(".json")
    assert text.upload.key.endswith(".txt")
    assert (
        text.upload.key == (letter("für" * 1000, max_bytes=999, bucket=bucket).upload or text).key
    )


def test_without_a_bucket_a_large_document_is_skipped() -> None:
    """With its size and the option that helps."""
    found = Asked(FIELDS, max_bytes=1000).letter(SourceDocument("a.txt", "a.txt", "x" * 1000))

    assert isinstance(found, Skipped)
    assert found.reason.endswith("bytes, the queue takes 1000: --bucket")


def test_what_no_worker_would_read_is_skipped() -> None:
    """A document that is nested as deep as allowed is one too deep inside a ticket."""
    deep: Any = "x"
    for _ in range(64):
        deep = [deep]
    found = Asked(FIELDS).letter(SourceDocument("a.json", "a.json", deep))

    assert Skipped("a.json", "nested deeper than 64 levels") == found


def test_groups_and_repeats_on_fifo_queues() -> None:
    """Each ticket is a group of its own, unless one is given; a repeat has the same id."""
    one, same, other = (letter(text, is_fifo=True) for text in ("x", "x", "y"))
    tenant = letter("x", is_fifo=True, group_id="tenant")

    assert one.deduplication_id == same.deduplication_id != other.deduplication_id
    assert one.group_id != other.group_id
    assert ("tenant", one.deduplication_id) == (tenant.group_id, tenant.deduplication_id)
    assert (None, None) == (letter("x").group_id, letter("x").deduplication_id)
    assert ("tenant", None) == (
        letter("x", group_id="tenant").group_id,
        letter("x", group_id="tenant").deduplication_id,
    )


@given(st.lists(st.integers(1, 1_048_576), max_size=40))
def test_batches_are_what_sqs_takes(sizes: list[int]) -> None:
    """All letters in order, at most ten and a mebibyte each, and none started too early."""
    letters = [make_letter(str(index), size) for index, size in enumerate(sizes)]
    found = list(batches(letters))

    assert letters == [one for batch in found for one in batch]
    assert all(1 <= len(batch) <= 10 for batch in found)
    totals = [sum(one.size_bytes for one in batch) for batch in found]
    assert all(total <= 1_048_576 for total in totals)
    for batch, total, after in zip(found, totals, found[1:], strict=False):
        assert len(batch) == 10 or total + after[0].size_bytes > 1_048_576


def test_the_body_is_json() -> None:
    """As compact as can be, since its bytes are paid for."""
    assert {"ticket_id": "a.txt", "state": "x", **FIELDS} == json.loads(letter("x").body)
    assert '"state":"x"' in letter("x").body
