"""Submitting: every document is sent once, whatever fails and whenever it is interrupted."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeDocuments
from tests.mailboxes import FakeMailbox
from worker.desk.journal import open_journal
from worker.desk.letters import Asked
from worker.desk.sources import Skipped, SourceDocument
from worker.desk.submit import Submission, Submitter
from worker.errors import AwsUnavailable, AwsUnusable
from worker.queue.locations import Prefix

FIELDS = {"question_set": "triage"}


def make_documents(count: int, size: int = 10) -> list[SourceDocument | Skipped]:
    return [SourceDocument(f"n-{n}", f"t-{n}", f"{n} " + "x" * size) for n in range(count)]


async def submit(
    path: Path,
    mailbox: FakeMailbox,
    documents: Sequence[SourceDocument | Skipped],
    *,
    s3: FakeDocuments | None = None,
    stopping: asyncio.Event | None = None,
    steps: list[int] | None = None,
    **asked: Any,
) -> Submission:
    with open_journal(path, "https://sqs/q") as journal:
        submitter = Submitter(
            mailbox=mailbox,
            journal=journal,
            asked=Asked(FIELDS, **asked),
            documents=s3,
            on_step=(steps if steps is not None else []).append,
            stopping=stopping or asyncio.Event(),
        )
        return await submitter.run(iter(documents))


def sent(mailbox: FakeMailbox) -> list[str]:
    return [letter.ticket_id for letter in mailbox.sent]


async def test_all_documents_are_sent_by_tens(tmp_path: Path) -> None:
    """Full batches, each ticket once, and the bar ends at the end."""
    mailbox, steps = FakeMailbox(), []
    result = await submit(tmp_path / "j", mailbox, make_documents(25), steps=steps)

    assert [10, 10, 5] == [len(ids) for _, _, ids in mailbox.journal.of("send")]
    assert {f"t-{n}": 1 for n in range(25)} == Counter(sent(mailbox))
    assert (25, 0, []) == (result.sent, result.known, result.skipped)
    assert 25 == sum(steps)


async def test_a_second_run_sends_nothing(tmp_path: Path) -> None:
    """What is in the journal is known; what is new or has changed is sent."""
    mailbox, steps = FakeMailbox(), []
    documents = make_documents(12)
    await submit(tmp_path / "j", mailbox, documents[:10])
    documents[3] = SourceDocument("n-3", "t-3", "changed")
    result = await submit(tmp_path / "j", mailbox, documents, steps=steps)

    assert (3, 9) == (result.sent, result.known)
    assert {"t-3", "t-10", "t-11"} == set(sent(mailbox)[10:])
    assert 12 == sum(steps)


async def test_an_entry_that_failed_is_sent_again(tmp_path: Path) -> None:
    """Only that one, after a pause; what SQS refuses for good is named at once."""
    mailbox = FakeMailbox()
    mailbox.refusals.append({1: ("InternalError", False), 2: ("InvalidMessageContents", True)})
    result = await submit(tmp_path / "j", mailbox, make_documents(5))

    assert [("t-0", "t-1", "t-2", "t-3", "t-4"), ("t-1",)] == [
        ids for _, _, ids in mailbox.journal.of("send")
    ]
    assert [Skipped("n-2", "the queue refused it: InvalidMessageContents")] == result.skipped
    assert 4 == result.sent


async def test_an_entry_that_always_fails_is_named(tmp_path: Path) -> None:
    """After six attempts, and the next run tries it again."""
    mailbox, steps = FakeMailbox(), []
    mailbox.refusals.extend([{0: ("InternalError", False)}] * 6)
    first = await submit(tmp_path / "j", mailbox, make_documents(2), steps=steps)
    second = await submit(tmp_path / "j", mailbox, make_documents(2))

    assert [Skipped("n-0", "the queue refused it: InternalError")] == first.skipped
    assert 2 == sum(steps)
    assert (1, 1) == (second.sent, second.known)
    assert ["t-1", "t-0"] == sent(mailbox)


async def test_a_call_that_failed_is_made_again(tmp_path: Path) -> None:
    """Throttled or not reachable: later and later, then no more; what was sent is noted."""
    mailbox = FakeMailbox()
    mailbox.faults.once["send"].extend([AwsUnavailable("throttled")] * 5)
    await submit(tmp_path / "j", mailbox, make_documents(3))
    began_at = asyncio.get_running_loop().time()
    mailbox.faults.always["send"] = AwsUnavailable("throttled")
    with pytest.raises(AwsUnavailable):
        await submit(tmp_path / "j", mailbox, make_documents(5))

    assert 15 <= asyncio.get_running_loop().time() - began_at <= 32
    assert ["t-0", "t-1", "t-2"] == sent(mailbox)


async def test_what_others_have_in_flight_is_noted_when_one_fails(tmp_path: Path) -> None:
    """A failure ends the run after the batches in flight, and these are not sent again."""
    mailbox = FakeMailbox()
    mailbox.faults.once["send"].append(AwsUnusable("no such queue"))
    with pytest.raises(AwsUnusable):
        await submit(tmp_path / "j", mailbox, make_documents(100))
    taken = len(mailbox.sent)
    await submit(tmp_path / "j", mailbox, make_documents(100))

    assert 30 == taken
    assert {f"t-{n}": 1 for n in range(100)} == Counter(sent(mailbox))


async def test_a_stop_ends_after_the_batches_in_flight(tmp_path: Path) -> None:
    """Nothing is sent twice when the run is taken up again."""
    mailbox, stopping = FakeMailbox(), asyncio.Event()
    mailbox.faults.gates["send"] = asyncio.Event()
    running = asyncio.create_task(
        submit(tmp_path / "j", mailbox, make_documents(100), stopping=stopping)
    )
    await mailbox.journal.until("send", times=4)
    stopping.set()
    mailbox.faults.gates["send"].set()
    first = await running
    second = await submit(tmp_path / "j", mailbox, make_documents(100))

    assert (40, 60, 40) == (first.sent, second.sent, second.known)
    assert {f"t-{n}": 1 for n in range(100)} == Counter(sent(mailbox))


async def test_one_group_is_sent_in_order(tmp_path: Path) -> None:
    """On a FIFO queue, when all tickets are of one group, batches do not overtake each other."""
    mailbox = FakeMailbox()
    mailbox.faults.once["send"].append(AwsUnavailable("throttled"))
    await submit(tmp_path / "j", mailbox, make_documents(40), is_fifo=True, group_id="tenant")

    assert [f"t-{n}" for n in range(40)] == sent(mailbox)


async def test_a_large_document_lies_in_s3_before_its_ticket_is_sent(tmp_path: Path) -> None:
    """A worker is never faster than the document; without a bucket it is named."""
    mailbox = FakeMailbox()
    s3 = FakeDocuments(mailbox.journal)
    large = make_documents(1, size=1000)
    refused = await submit(tmp_path / "j", mailbox, large, max_bytes=500)
    taken = await submit(
        tmp_path / "j", mailbox, large, s3=s3, max_bytes=500, bucket=Prefix.parse("s3://bkt/in")
    )
    [(place, (content, _))] = s3.objects.items()

    assert ["n-0"] == [one.name for one in refused.skipped]
    assert (1, 1) == (taken.sent, taken.uploaded)
    assert "s3://" + "/".join(place) == json.loads(mailbox.sent[0].body)["state_uri"]
    assert content.startswith(b"0 xxx")
    assert ["write", "send"] == [entry[0] for entry in mailbox.journal.entries]


async def test_what_cannot_be_read_is_passed_on(tmp_path: Path) -> None:
    """A document that its source skipped is in the summary, and the others are sent."""
    mailbox, steps = FakeMailbox(), []
    documents = [*make_documents(1), Skipped("b.txt", "is empty"), *make_documents(3)[1:]]
    result = await submit(tmp_path / "j", mailbox, documents, steps=steps)

    assert ([Skipped("b.txt", "is empty")], 3, 4) == (result.skipped, result.sent, sum(steps))
