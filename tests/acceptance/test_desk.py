"""`submit`, `collect` and `redrive`: a folder in, a table out, dead letters back."""

import csv
import json
import signal
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.acceptance.conftest import CREDENTIALS, REGION, Desk, Run, Start

QUESTIONS = """
refund:
  type: noul
  instructions: Is money wanted back?
team:
  type: choice
  criteria: {billing: money, tech: null}
"""
SECRET = "xyzzy-the-customers-own-words"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.yaml"
    path.write_text(QUESTIONS)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mail"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number:02}.txt").write_text(f"{number} {SECRET} please help")
    (folder / "bad.txt").write_bytes(b"\xff")
    return folder


def s3(desk: Desk) -> Any:
    session = boto3.Session(region_name=REGION, **CREDENTIALS)
    return session.client("s3", endpoint_url=desk.endpoint_url)


def test_a_folder_becomes_a_table(
    desk: Desk, run: Run, start: Start, tiny_model: Path, folder: Path, questions: Path
) -> None:
    """Submit, answer, collect: one row for each document; large ones travel through S3."""
    s3(desk).create_bucket(Bucket="papers")
    desk.sqs.set_queue_attributes(
        QueueUrl=desk.queue_url, Attributes={"MaximumMessageSize": "1024"}
    )
    (folder / "large.txt").write_text(f"{SECRET} " * 40)
    submitting = [
        "submit",
        str(folder),
        *("--questions", str(questions), "--metadata", "batch=monday"),
        *("--queue-url", desk.queue_url, "--bucket", "s3://papers/in"),
    ]
    first, second = run(*submitting), run(*submitting)
    journal = folder.with_name("mail.tickets.submitted.jsonl")
    allow = ("--allow-bucket", "s3://papers/in")
    worker = start("run", "--model", str(tiny_model), "--wait-seconds", "1", *allow, *desk.flags())
    output = folder.with_name("out.csv")
    collecting = ["collect", "--queue-url", desk.subscriber_url, "--output", str(output)]
    collected = run(*collecting, "--submitted", str(journal), "--timeout-seconds", "30")
    assert 0 == worker.stop()
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    assert (2, 2) == (first.returncode, second.returncode)  # a document was skipped
    assert "skipped mail/bad.txt: the document is not UTF-8 at byte 0" in first.stderr
    assert "13 sent" in first.stdout
    assert "0 sent (0 bytes), 13 sent before" in second.stdout
    assert 0 == collected.returncode, collected.stderr
    assert "13 of 13 tickets are in" in collected.stdout
    names = [*(f"mail/{number:02}.txt" for number in range(12)), "mail/large.txt"]
    assert names == sorted(row["ticket_id"] for row in rows)
    assert {("decided", "review", "monday")} == {
        (row["status"], row["disposition"], row["metadata.batch"]) for row in rows
    }
    assert all(0 <= float(row["answer.refund"]) <= 1 for row in rows)
    assert {row["answer.team"] for row in rows} <= {"billing", "tech"}
    assert [] == desk.take_all(desk.subscriber_url)
    assert SECRET not in first.stdout + first.stderr + "".join(worker.written) + output.read_text()


def test_a_submission_that_was_cut_off_goes_on(
    desk: Desk, start: Start, run: Run, tmp_path: Path, questions: Path
) -> None:
    """After SIGINT, exit code 6, and after SIGKILL, the same command sends what is left."""
    source = tmp_path / "mail.jsonl"
    source.write_text("".join(f'{{"id": {n}, "body": "text {n}"}}\n' for n in range(200)))
    journal = tmp_path / "journal"
    arguments = [
        "submit",
        str(source),
        *("--column", "body", "--id-column", "id", "--questions", str(questions)),
        *("--queue-url", desk.queue_url, "--submitted", str(journal)),
    ]

    def noted() -> int:
        return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0

    def cut_off(number: signal.Signals) -> int:
        before = noted()
        worker = start(*arguments)
        while noted() <= before:
            assert worker.process.poll() is None
            time.sleep(0.01)
        return worker.stop(number)

    codes = cut_off(signal.SIGINT), cut_off(signal.SIGKILL)
    after = noted()
    again = run(*arguments)
    bodies = [json.loads(message["Body"]) for message in desk.take_all(desk.queue_url)]

    assert (6, -signal.SIGKILL) == codes
    assert after < 200
    assert 0 == again.returncode, again.stderr
    assert {str(number) for number in range(200)} == {body["ticket_id"] for body in bodies}
    assert len(bodies) <= 200 + 4 * 10
    assert 200 == noted()


def test_outcomes_that_do_not_come_are_named(
    desk: Desk, run: Run, folder: Path, questions: Path
) -> None:
    """Nobody answers: exit code 7, the tickets by id, and a table all the same."""
    journal, output = folder.with_name("journal"), folder.with_name("out.parquet")
    submitted = run(
        *("submit", str(folder), "--pattern", "0[01].txt", "--questions", str(questions)),
        *("--queue-url", desk.queue_url, "--submitted", str(journal)),
    )
    collected = run(
        *("collect", "--queue-url", desk.subscriber_url, "--submitted", str(journal)),
        *("--output", str(output), "--timeout-seconds", "0"),
    )

    assert 0 == submitted.returncode, submitted.stderr
    assert 7 == collected.returncode
    assert ["missing mail/00.txt", "missing mail/01.txt"] == collected.stderr.splitlines()[:2]
    assert output.exists()


def test_a_dry_run_needs_no_queue(run: Run, folder: Path, questions: Path) -> None:
    """Everything is read and counted, nothing is written or sent."""
    before = sorted(folder.parent.iterdir())
    dry = run("submit", str(folder), "--questions", str(questions), "--dry-run")

    assert 2 == dry.returncode
    assert dry.stdout.startswith("dry run: 12 tickets (")
    assert "in 2 batches, 0 documents to S3, 1 skipped" in dry.stdout
    assert before == sorted(folder.parent.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--question-set", "x"], "needs --queue-url"),
        (["--dry-run"], "needs one of --question-set and --questions"),
        (["--dry-run", "--question-set", "x", "--metadata", "a"], "--metadata must be KEY=VALUE"),
        (["--dry-run", "--question-set", "x", "--bucket", "b"], "--bucket must be s3://bucket"),
        (["--dry-run", "--question-set", "x", "--column", "c"], "need JSONL or CSV"),
    ],
)
def test_a_wrong_submission_says_what_to_do(
    run: Run, folder: Path, arguments: list[str], message: str
) -> None:
    """Exit code 2 and one line, before anything is sent."""
    found = run("submit", str(folder), *arguments)

    assert 2 == found.returncode
    assert message in found.stderr
    assert 1 == len(found.stderr.splitlines())


def test_rejected_tickets_go_back(desk: Desk, run: Run, start: Start, tiny_model: Path) -> None:
    """Grouped by the worker's reason; once mended, they are sent back and answered."""
    uri = "s3://papers/in/a.txt"
    ask = {"questions": {"q": {"type": "noul", "instructions": SECRET}}}
    s3(desk).create_bucket(Bucket="papers")
    desk.send_tickets([{"ticket_id": "gone", "state_uri": uri, **ask}, {"ticket_id": SECRET}])
    worker = start(
        *("run", "--model", str(tiny_model), "--wait-seconds", "1"),
        *("--allow-bucket", "s3://papers/in", *desk.flags()),
    )
    rejections = desk.outcomes(2)
    listed = run("redrive", "--queue-url", desk.queue_url)
    unconfirmed = run("redrive", "--queue-url", desk.queue_url, "--all")
    s3(desk).put_object(Bucket="papers", Key="in/a.txt", Body=b"it is here now")
    back = run("redrive", "--queue-url", desk.queue_url, "--reason", "document_gone", "--yes")
    [answered] = desk.outcomes(1)
    worker.stop()
    [left] = desk.take_all(desk.dead_letter_url)

    assert {"rejected"} == {outcome["status"] for outcome in rejections}
    assert 0 == listed.returncode, listed.stderr
    rows = [line.split()[:2] for line in listed.stdout.splitlines()]
    assert ["document_gone", "1"] in rows
    assert ["invalid_ticket", "1"] in rows
    assert (2, True) == (unconfirmed.returncode, "--yes" in unconfirmed.stderr)
    assert (0, True) == (back.returncode, "1 sent back, 0 refused" in back.stdout)
    assert ("gone", "decided") == (answered["ticket_id"], answered["status"])
    assert SECRET == json.loads(left["Body"])["ticket_id"]
    assert SECRET not in listed.stdout + listed.stderr + back.stdout + back.stderr


def test_a_large_outcome_comes_through_s3(
    desk: Desk, run: Run, start: Start, tiny_model: Path, tmp_path: Path
) -> None:
    """Over the topic's limit, the outcome is published as a pointer, and collected whole."""
    s3(desk).create_bucket(Bucket="papers")
    metadata = {f"key-{number}": "x" * 20_000 for number in range(16)}
    question = {"type": "noul", "instructions": "Is money wanted back?"}
    ticket = {"ticket_id": "t", "state": "x", "questions": {"q": question}, "metadata": metadata}
    desk.send_tickets([ticket])
    journal, output = tmp_path / "journal", tmp_path / "out.jsonl"
    head = {"format": "decision-submitted/1", "queue_url": desk.queue_url}
    line = {"ticket_id": "t", "sha256": ""}
    journal.write_text(f"{json.dumps(head)}\n{json.dumps(line)}\n")
    worker = start(
        *("run", "--model", str(tiny_model), "--wait-seconds", "1"),
        *("--outcome-bucket", "s3://papers/out", *desk.flags()),
    )
    collected = run(
        *("collect", "--queue-url", desk.subscriber_url, "--submitted", str(journal)),
        *("--output", str(output), "--allow-bucket", "s3://papers/out"),
        *("--timeout-seconds", "30"),
    )
    worker.stop()
    [outcome] = [json.loads(line) for line in output.read_text().splitlines()]

    assert 0 == collected.returncode, collected.stderr
    assert ("t", "decided", metadata) == (
        outcome["ticket_id"],
        outcome["status"],
        outcome["metadata"],
    )
