"""What desk work says of documents, outcomes and dead letters, without their text."""

import asyncio
import json
from pathlib import Path

from tests.mailboxes import FakeMailbox
from tests.unit.test_canary import EVERY, GOOD, QUESTIONS, STATE, found
from worker.desk.collect import Collector
from worker.desk.journal import open_journal
from worker.desk.letters import Asked
from worker.desk.mailbox import Received
from worker.desk.outcomes import open_outcomes
from worker.desk.redrive import Redriver, list_letters
from worker.desk.sources import SourceDocument
from worker.desk.submit import Submitter


async def test_desk_work(tmp_path: Path) -> None:
    """Submitting, collecting and redriving say names and reasons, and no text."""
    mailbox = FakeMailbox()
    mailbox.refusals.append({0: ("InvalidMessageContents", True)})
    documents = [SourceDocument(f"n-{n}", f"t-{n}", f"{n} {STATE}") for n in range(3)]
    with open_journal(tmp_path / "journal", "https://sqs/q") as journal:
        submitter = Submitter(
            mailbox=mailbox,
            journal=journal,
            asked=Asked({"questions": QUESTIONS}),
            documents=None,
            on_step=[].append,
            stopping=asyncio.Event(),
        )
        submission = await submitter.run(iter(documents))
    assert [] == found(repr(submission) + (tmp_path / "journal").read_text(), EVERY)

    dead = FakeMailbox(name="dead")
    code = {"DataType": "String", "StringValue": STATE}
    dead.put(Received("m", "m#0", GOOD, {"code": code, "message": code}))
    groups = await list_letters(dead, most=10)
    back = await Redriver(dead=dead, queue=mailbox, is_fifo=False, on_step=[].append).run(
        None, most=10
    )
    assert [] == found(repr(groups) + repr(back) + repr(dead.visible()), EVERY)

    outcomes = FakeMailbox()
    outcomes.put(Received("m-1", "", json.dumps({STATE: STATE})))
    outcomes.put(Received("m-2", "", STATE))
    with open_outcomes(tmp_path / "outcomes.jsonl") as file:
        collector = Collector(
            mailbox=outcomes,
            file=file,
            submitted={"t-1"},
            bookcase=None,
            timeout_seconds=0.01,
            on_step=[].append,
            stopping=asyncio.Event(),
        )
        await collector.run()
    assert [] == found((tmp_path / "outcomes.jsonl").read_text(), EVERY)
