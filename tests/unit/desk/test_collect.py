"""Collecting: each outcome is written once, and on disk before it is deleted."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeDocuments
from tests.mailboxes import FakeMailbox
from tests.unit.queue.test_envelope import make_envelope, make_pointer
from worker.desk.collect import Collector
from worker.desk.mailbox import Received
from worker.desk.outcomes import open_outcomes, read_outcomes
from worker.errors import AwsUnavailable, AwsUnusable, UsageError
from worker.queue.locations import AllowList, Prefix
from worker.queue.opening import Bookcase


def make_outcome_text(ticket_id: str, outcome_id: str = "") -> str:
    tree = {
        "schema": "decision-outcome/1",
        "outcome_id": outcome_id or f"o-{ticket_id}",
        "ticket_id": ticket_id,
        "status": "decided",
        "metadata": {"name": "für"},
    }
    return json.dumps(tree)


def make_message(body: str, message_id: str = "", **fields: Any) -> Received:
    return Received(message_id or body, "", body, **fields)


def make_mailbox(*bodies: str) -> FakeMailbox:
    mailbox = FakeMailbox()
    for number, body in enumerate(bodies):
        mailbox.put(make_message(body, f"m-{number}"))
    return mailbox


class Run:
    """One collection into a file that the next one goes on with."""

    def __init__(self, path: Path, mailbox: FakeMailbox, *submitted: str) -> None:
        self.path = path
        self.mailbox = mailbox
        self.submitted = set(submitted)
        self.stopping = asyncio.Event()
        self.steps: list[int] = []
        self.bookcase: Bookcase | None = None

    async def __call__(self) -> Collector:
        with open_outcomes(self.path) as file:
            collector = Collector(
                mailbox=self.mailbox,
                file=file,
                submitted=self.submitted,
                bookcase=self.bookcase,
                timeout_seconds=60,
                on_step=self.steps.append,
                stopping=self.stopping,
            )
            await collector.run()
        return collector

    def lines(self) -> list[str]:
        return [outcome["outcome_id"] for outcome in read_outcomes(self.path)]


async def test_all_outcomes_are_written_then_deleted(tmp_path: Path) -> None:
    """As they were published, in one file, and the queue is empty."""
    ids = [f"t-{n}" for n in range(25)]
    mailbox = make_mailbox(*map(make_outcome_text, ids))
    run = Run(tmp_path / "o.jsonl", mailbox, *ids)
    collector = await run()

    assert [json.loads(make_outcome_text(one)) for one in ids] == list(read_outcomes(run.path))
    assert {} == mailbox.messages
    assert (25, 0, set()) == (
        collector.result.written,
        collector.result.repeats,
        collector.missing(),
    )
    assert 25 == sum(run.steps)


async def test_nothing_is_deleted_before_it_is_on_disk(tmp_path: Path) -> None:
    """A process that is killed between the two finds it in its file, and drops the repeat."""
    mailbox = make_mailbox(make_outcome_text("t"))
    mailbox.faults.gates["delete"] = asyncio.Event()
    run = Run(tmp_path / "o.jsonl", mailbox, "t")
    running = asyncio.create_task(run())
    await mailbox.journal.until("delete")
    written = run.lines()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert ["o-t"] == written
    assert ["m-0"] == list(mailbox.messages)


async def test_repeats_are_dropped(tmp_path: Path) -> None:
    """By outcome id: in one receive, in the next, and in another run; they are deleted."""
    mailbox = make_mailbox(
        *[make_outcome_text("a")] * 12, make_outcome_text("a", "again"), make_outcome_text("b")
    )
    run = Run(tmp_path / "o.jsonl", mailbox, "a", "b")
    first = await run()
    mailbox.put(make_message(make_outcome_text("b"), "late"))
    run.submitted.add("c")
    second = await run()

    assert ["o-a", "again", "o-b"] == run.lines()
    assert (3, 11) == (first.result.written, first.result.repeats)
    assert (0, 1, {"c"}) == (second.result.written, second.result.repeats, second.missing())
    assert {} == mailbox.messages


async def test_a_second_run_goes_on(tmp_path: Path) -> None:
    """What is in the file is not waited for; when all is there, nothing is received."""
    mailbox = make_mailbox(make_outcome_text("a"))
    run = Run(tmp_path / "o.jsonl", mailbox, "a", "b")
    first = await run()
    run.steps.clear()
    mailbox.put(make_message(make_outcome_text("b"), "late"))
    await run()
    mailbox.journal.entries.clear()
    await run()

    assert {"b"} == first.missing()
    assert [1, 1, 2] == run.steps
    assert [] == mailbox.journal.entries


async def test_it_gives_up_when_nothing_comes(tmp_path: Path) -> None:
    """The timeout counts from the last outcome: a long queue may take its time."""
    loop = asyncio.get_running_loop()
    mailbox = make_mailbox()
    for number in range(5):
        loop.call_at(
            loop.time() + 50 * (number + 1),
            mailbox.put,
            make_message(make_outcome_text(f"t-{number}"), f"m-{number}"),
        )
    began_at = loop.time()
    collector = await Run(tmp_path / "o.jsonl", mailbox, *[f"t-{n}" for n in range(6)])()

    assert 5 == collector.result.written
    assert {"t-5"} == collector.missing()
    assert 310 <= loop.time() - began_at <= 320


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "text",
        '{"ticket_id": "a"}',
        make_envelope("{}"),
        make_outcome_text("a").replace("outcome/1", "outcome/2"),
        make_pointer(),
    ],
)
async def test_what_is_no_outcome_is_left(tmp_path: Path, body: str) -> None:
    """It may be someone's: counted, not deleted, not written."""
    mailbox = make_mailbox(body, make_outcome_text("a"))
    collector = await Run(tmp_path / "o.jsonl", mailbox, "a", "b")()

    assert {"m-0"} == collector.result.unreadable
    assert ["m-0"] == list(mailbox.messages)
    assert 1 == collector.result.written


async def test_outcomes_of_other_tickets_are_left(tmp_path: Path) -> None:
    """Another collect may wait for them."""
    mailbox = make_mailbox(make_outcome_text("other"), make_outcome_text("a"))
    collector = await Run(tmp_path / "o.jsonl", mailbox, "a")()

    assert {"m-0"} == collector.result.others
    assert ["m-0"] == list(mailbox.messages)


async def test_outcomes_are_found_in_envelopes_and_in_s3(tmp_path: Path) -> None:
    """Raw delivery or not, whole or behind a pointer."""
    s3 = FakeDocuments(objects={("papers", "a/b"): (make_outcome_text("c").encode(), "")})
    mailbox = make_mailbox(
        make_outcome_text("a"), make_envelope(make_outcome_text("b")), make_envelope(make_pointer())
    )
    run = Run(tmp_path / "o.jsonl", mailbox, "a", "b", "c")
    run.bookcase = Bookcase(s3, AllowList((Prefix.parse("s3://papers/a"),)), 10_000)
    collector = await run()

    assert ["o-a", "o-b", "o-c"] == run.lines()
    assert set() == collector.missing()


async def test_a_failed_call_is_made_again(tmp_path: Path) -> None:
    """Receive, S3 and delete may fail: nothing is lost, nothing is written twice."""
    s3 = FakeDocuments(objects={("papers", "a/b"): (make_outcome_text("a").encode(), "")})
    s3.faults.once["read"].append(AwsUnavailable("throttled"))
    mailbox = make_mailbox(make_pointer(), make_outcome_text("b"))
    for operation in ("receive", "delete"):
        mailbox.faults.once[operation].append(AwsUnavailable("throttled"))
    run = Run(tmp_path / "o.jsonl", mailbox, "a", "b")
    run.bookcase = Bookcase(s3, AllowList((Prefix.parse("s3://papers"),)), 10_000)
    # A poll that finds nothing for 60 s ends it, and what failed is hidden for 120 s.
    await run()
    await asyncio.sleep(120)
    collector = await run()

    assert ["o-b", "o-a"] == run.lines()
    assert set() == collector.result.unreadable
    assert 1 == collector.result.repeats
    assert {} == mailbox.messages


async def test_a_queue_that_does_not_answer_is_not_silence(tmp_path: Path) -> None:
    """When it gives up, it says what failed; polls come later and later meanwhile."""
    mailbox = make_mailbox(make_outcome_text("a"))
    mailbox.faults.always["receive"] = AwsUnavailable("cannot receive: throttled")
    run = Run(tmp_path / "o.jsonl", mailbox, "a")
    first = await run()
    polls = len(mailbox.journal.of("receive"))
    mailbox.faults.always.clear()
    second = await run()

    assert "cannot receive: throttled" == first.result.fault
    assert 4 <= polls <= 8
    assert second.result.fault is None


async def test_a_queue_that_cannot_be_used_ends_it(tmp_path: Path) -> None:
    """No such queue, not allowed: no waiting helps."""
    mailbox = make_mailbox()
    mailbox.faults.always["receive"] = AwsUnusable("no such queue")
    with pytest.raises(AwsUnusable):
        await Run(tmp_path / "o.jsonl", mailbox, "a")()


async def test_a_stop_ends_after_the_poll(tmp_path: Path) -> None:
    """What the poll in flight brings is written and deleted."""
    mailbox = make_mailbox(make_outcome_text("a"))
    mailbox.faults.gates["receive"] = asyncio.Event()
    run = Run(tmp_path / "o.jsonl", mailbox, "a", "b")
    running = asyncio.create_task(run())
    await mailbox.journal.until("receive")
    run.stopping.set()
    mailbox.faults.gates["receive"].set()
    await running

    assert ["o-a"] == run.lines()
    assert {} == mailbox.messages
    assert 1 == len(mailbox.journal.of("receive"))


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    """A process killed while writing left half an outcome, which is still on the queue."""
    path = tmp_path / "o.jsonl"
    whole = make_outcome_text("a") + "\n"
    path.write_text(whole + whole[:30])
    with open_outcomes(path) as file:
        assert {"a"} == file.ticket_ids

    assert whole == path.read_text()


@pytest.mark.parametrize(
    "content", ["my diary", "my diary\n", make_outcome_text("a") + "\nmy diary\nx"]
)
def test_another_file_is_left_alone(tmp_path: Path, content: str) -> None:
    """A file that holds something else is not written to, nor cut."""
    path = tmp_path / "o.jsonl"
    path.write_text(content)
    with pytest.raises(UsageError):
        open_outcomes(path).__enter__()

    assert content == path.read_text()
