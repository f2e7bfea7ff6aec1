"""`decision-worker run`: tickets in over a socket, outcomes out, a signal in the middle."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.conftest import Desk, Start
from tests.dashboards import missing
from tests.exposition import faults
from tests.spans import collector_in_thread

QUESTIONS = {
    "team": {
        "type": "choice",
        "instructions": "Who handles this?",
        "criteria": {"billing": "money", "tech": None, "none": "none of these"},
    },
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "mad"]},
    "refund": {"type": "noul", "instructions": "Is money wanted back?"},
}
SECRET = "xyzzy-the-customers-own-words"


def tickets(count: int, words: int = 20) -> list[dict[str, object]]:
    return [
        {
            "ticket_id": f"ticket-{number}",
            "state": f"{number} {SECRET} " + "please help me " * words,
            "questions": QUESTIONS,
            "metadata": {"channel": "mail"},
        }
        for number in range(count)
    ]


def test_answers_every_ticket_and_drains_at_once_when_idle(
    desk: Desk, start: Start, tiny_model: Path
) -> None:
    """Every ticket becomes one outcome, the queue is empty, no customer text leaves; exit 0.

    Metrics are read on their own port, and those of every panel are there; traces are flushed
    before the end. What a person decided comes through a queue of its own.
    """
    desk.send_tickets(tickets(5))
    feedback_url = desk.sqs.create_queue(QueueName="feedback")["QueueUrl"]
    flags = ["--model", str(tiny_model), "--wait-seconds", "1", *desk.flags()]
    with collector_in_thread() as collector:
        endpoint = f"http://127.0.0.1:{collector.port}"
        watched = ("--tracing", "--metrics-port", "0", "--feedback-queue-url", feedback_url)
        worker = start("run", *flags, *watched, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
        port = worker.event("metrics_port_opened")["port"]

        outcomes = desk.outcomes(5)
        told = {"ticket_id": outcomes[0]["ticket_id"], "question": "team", "decided": "nobody"}
        desk.sqs.send_message(QueueUrl=feedback_url, MessageBody=json.dumps(told))
        assert "overturned" == worker.event("feedback_counted")["result"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            exposition = answer.read().decode()
        code = worker.stop()

    assert [f"ticket-{number}" for number in range(5)] == sorted(o["ticket_id"] for o in outcomes)
    assert {"review"} == {outcome["disposition"] for outcome in outcomes}
    assert desk.take_all(desk.queue_url) == desk.take_all(feedback_url) == []
    assert desk.hidden() == 0
    assert code == 0
    spans = Counter(span.name.split()[0] for span in collector.spans())
    assert spans.pop("receive") >= 1
    assert {"process": 5, "evaluate": 5, "publish": 5, "delete": 5} == spans
    assert [] == faults(exposition)
    assert set() == missing(exposition)
    shown = "".join(map(str, collector.requests)) + exposition
    assert SECRET not in json.dumps(outcomes) + "".join(worker.written) + shown


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_signal_in_the_middle_loses_nothing(
    desk: Desk, start: Start, tiny_model: Path, number: signal.Signals
) -> None:
    """After a signal each ticket is published and deleted, or visible again; never neither."""
    sent = tickets(40, words=300)
    desk.send_tickets(sent)
    worker = start(
        "run",
        "--model",
        str(tiny_model),
        "--wait-seconds",
        "1",
        "--max-in-hand",
        "8",
        *desk.flags(),
    )

    first = desk.outcomes(1)
    code = worker.stop(number)
    published = first + [json.loads(m["Body"]) for m in desk.take_all(desk.subscriber_url)]
    left = [json.loads(message["Body"]) for message in desk.take_all(desk.queue_url)]

    ids = Counter(outcome["ticket_id"] for outcome in published)
    ids.update(ticket["ticket_id"] for ticket in left)
    assert {str(ticket["ticket_id"]) for ticket in sent} == set(ids)
    assert {1} == set(ids.values())
    assert desk.hidden() == 0
    assert left, "the signal came too late to show anything"
    assert code == 0


def test_past_the_drain_deadline_work_is_released(
    desk: Desk, start: Start, tiny_model: Path
) -> None:
    """With no time to drain, what is held goes back to the queue at once; exit code 6."""
    sent = tickets(30, words=1000)
    desk.send_tickets(sent)
    worker = start(
        "run", "--model", str(tiny_model), "--wait-seconds", "1", "--drain-seconds", "0",
        *desk.flags(),
    )  # fmt: skip

    first = desk.outcomes(1)
    code = worker.stop()
    published = first + [json.loads(m["Body"]) for m in desk.take_all(desk.subscriber_url)]
    left = [json.loads(message["Body"]) for message in desk.take_all(desk.queue_url)]

    ids = {outcome["ticket_id"] for outcome in published} | {t["ticket_id"] for t in left}
    assert {str(ticket["ticket_id"]) for ticket in sent} == ids
    assert desk.hidden() == 0
    assert code == 6


def test_a_second_signal_says_what_it_abandons(desk: Desk, start: Start, tiny_model: Path) -> None:
    """It ends the process at once, with 128 + its number; the messages come back by themselves."""
    desk.send_tickets(tickets(20, words=3000))
    worker = start(
        "run", "--model", str(tiny_model), "--wait-seconds", "1", "--max-in-hand", "3",
        *desk.flags(),
    )  # fmt: skip
    desk.outcomes(1)
    worker.process.send_signal(signal.SIGTERM)
    worker.event("drain_started")
    worker.process.send_signal(signal.SIGINT)
    abandoned = worker.event("exit_forced")

    assert 128 + signal.SIGINT == worker.wait()
    assert "SIGINT" == abandoned["signal"]
    assert 1 <= len(abandoned["deliveries"]) <= 3


def test_rejects_what_is_not_a_ticket(desk: Desk, start: Start, tiny_model: Path) -> None:
    """A bad body is moved to the dead letters with code and place, and its rejection published."""
    body = json.dumps({"state": SECRET, "questions": {"q": {"type": "choice"}}})
    desk.send(body, "not json")
    worker = start("run", "--model", str(tiny_model), "--wait-seconds", "1", *desk.flags())

    outcomes = desk.outcomes(2)
    code = worker.stop()
    dead = desk.take_all(desk.dead_letter_url)

    assert {"questions.q.criteria", ""} == {outcome["error"]["where"] for outcome in outcomes}
    assert {"rejected"} == {outcome["status"] for outcome in outcomes}
    assert {body, "not json"} == {message["Body"] for message in dead}
    assert {"invalid_ticket"} == {m["MessageAttributes"]["code"]["StringValue"] for m in dead}
    assert desk.take_all(desk.queue_url) == []
    assert code == 0
    assert SECRET not in json.dumps(outcomes) + "".join(worker.written)


def test_outcome_is_complete(desk: Desk, start: Start, tiny_model: Path) -> None:
    """An outcome carries answers, usage and provenance, and SNS attributes to filter by."""
    desk.send_tickets(tickets(1))
    worker = start("run", "--model", str(tiny_model), "--wait-seconds", "1", *desk.flags())

    worker.event("ready")
    (message,) = desk.take(desk.subscriber_url, wait_seconds=20)
    worker.stop()
    outcome = json.loads(message["Body"])
    attributes = {
        name: (value["DataType"], value["StringValue"])
        for name, value in message["MessageAttributes"].items()
    }

    assert outcome["schema"] == "decision-outcome/1"
    assert list(outcome["answers"]) == ["team", "anger", "refund"]
    assert outcome["metadata"] == {"channel": "mail"}
    assert outcome["usage"]["reused_tokens"] > 0
    assert len(outcome["provenance"]["model"]["sha256"]) == 64
    assert attributes["status"] == ("String", "decided")
    assert ("String", outcome["answers"]["team"]["choice"]) == attributes["answer.team"]
    assert ("Number", f"{outcome['answers']['anger']['score']:.5f}") == attributes["answer.anger"]


def test_a_log_that_cannot_be_written_harms_no_delivery(
    desk: Desk, environment: dict[str, str], tiny_model: Path
) -> None:
    """Good and bad tickets end as they should when nobody reads the log."""
    desk.send("not json")
    desk.send_tickets(tickets(2))
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "worker",
                "run",
                "--model",
                str(tiny_model),
                "--wait-seconds",
                "1",
                *desk.flags(),
            ],
            env=environment,
            stdout=full,
            stderr=full,
        )
    try:
        outcomes = desk.outcomes(3)
    finally:
        process.terminate()
        code = process.wait(60)

    assert ["decided", "decided", "rejected"] == sorted(o["status"] for o in outcomes)
    assert 0 == desk.hidden()
    assert 0 == code


def test_a_lost_dead_letter_queue_stops_no_good_ticket(
    desk: Desk, start: Start, tiny_model: Path
) -> None:
    """A bad ticket that can be copied nowhere stays on the queue; the good ones are answered."""
    worker = start("run", "--model", str(tiny_model), "--wait-seconds", "1", *desk.flags())
    worker.event("ready")
    desk.sqs.delete_queue(QueueUrl=desk.dead_letter_url)
    desk.send("not json")
    worker.event("delivery_finished")
    desk.send_tickets(tickets(2))

    outcomes = desk.outcomes(2)
    code = worker.stop()

    assert {"decided"} == {outcome["status"] for outcome in outcomes}
    assert 0 == code
