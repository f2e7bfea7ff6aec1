"""Canaries: what a customer wrote is looked for wherever it must not be, on every path."""

import gzip
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from prometheus_client import generate_latest

from tests.fakes import FakeDocuments
from tests.spans import KeptSpans
from tests.unit.queue.bench import make_bench
from tests.unit.queue.test_envelope import make_envelope, make_pointer
from tests.unit.sidecar.bench import JSON, LINES, open_bench
from worker.errors import (
    AwsUnavailable,
    AwsUnusable,
    DeadlinePassed,
    DecodeFailed,
    EngineBusy,
    EngineFailed,
    Rejected,
    WorkerError,
)
from worker.faults import fault_parts, fault_text
from worker.log import configure_log
from worker.queue.locations import AllowList, Prefix
from worker.queue.opening import Bookcase, Opener
from worker.tracing import Tracer
from worker.troubles import last_troubles

STATE, ASKED, DESCRIBED = "canary-state-7", "canary-asked-7", "canary-described-7"
OPTION, LEVEL, QUESTION = "canary-option-7", "canary-level-7", "canary-question-7"
METADATA, FIELD = "canary-metadata-7", "canary-field-7"

TEXT = (STATE, ASKED, DESCRIBED, FIELD)
"""What never leaves, not even in an outcome."""
EVERY = (*TEXT, OPTION, LEVEL, QUESTION, METADATA)
"""What is in no log and no metric: an outcome names options and levels, and carries metadata."""

QUESTIONS = {
    QUESTION: {"type": "choice", "instructions": ASKED, "criteria": {OPTION: DESCRIBED, "b": None}},
    "heat": {"type": "score", "instructions": {ASKED: [ASKED]}, "criteria": [LEVEL, "hot"]},
    "noul": {"type": "noul", "instructions": ASKED, "criteria": {"true": DESCRIBED}},
}
DECISION = {
    "id": QUESTION,
    "state": {STATE: [STATE]},
    "question": ASKED,
    "options": [{"id": OPTION, "description": DESCRIBED}, {"id": "b", "description": DESCRIBED}],
}


def ticket(**fields: Any) -> dict[str, Any]:
    """Return a ticket with a canary in every place; a field set to ... is left out."""
    tree = {
        "ticket_id": "t-1",
        "state": {"mail": STATE, STATE: [STATE]},
        "questions": QUESTIONS,
        "metadata": {METADATA: METADATA},
        FIELD: FIELD,
    }
    return {name: value for name, value in (tree | fields).items() if value is not ...}


def question(**fields: Any) -> dict[str, Any]:
    return {QUESTION: QUESTIONS[QUESTION] | fields}


GOOD = json.dumps(ticket())
BAD = [
    GOOD[:-2],
    GOOD + STATE,
    GOOD.replace('"mail"', f'"{STATE}"'),  # the same key twice
    GOOD.replace(f'["{STATE}"]', "NaN"),
    GOOD.replace(f'["{STATE}"]', '"\\ud800"'),
    json.dumps(STATE),
    json.dumps([STATE]),
    "[" * 100 + STATE,
    json.dumps({STATE: STATE}),
    *(
        json.dumps(ticket(**fields))
        for fields in (
            {"state": None},
            {"state": ...},
            {"state": 7, "questions": {}},
            {"questions": STATE},
            {"questions": {QUESTION: STATE}},
            {"questions": {"": STATE}},
            {"questions": question(type=ASKED)},
            {"questions": question(criteria=[OPTION])},
            {"questions": question(criteria={OPTION: 7})},
            {"questions": question(criteria={"": DESCRIBED})},
            {"questions": question(criteria={f"{OPTION}{n}": DESCRIBED for n in range(6)})},
            {"questions": question(instructions=7)},
            {"questions": question(**{FIELD: FIELD})},
            {"model": STATE},
            {"model": [STATE]},
            {"metadata": {METADATA: [METADATA]}},
            {"metadata": METADATA},
            {"ticket_id": [STATE]},
            {"ticket_id": STATE * 100},
            {"question_set": STATE},
            {"question_set": STATE, "questions": ...},
            {"state_uri": f"s3://papers/{STATE}"},
            {"state_uri": STATE, "state": ...},
            {"state_uri": f"s3://papers/{STATE}/../b", "state": ...},
            {"images": [STATE]},
        )
    ),
]

FAULTS: list[Exception] = [
    RuntimeError(STATE),
    UnicodeEncodeError("utf-8", STATE, 0, 1, STATE),
    KeyError(STATE),
    ExceptionGroup(STATE, [ValueError(STATE)]),
    EngineBusy(1, 2),
    DecodeFailed("no"),
    DeadlinePassed("late"),
    Rejected("prompt_too_long", "9 tokens", f"questions.{QUESTION}.criteria.{OPTION}"),
    EngineFailed("broken"),
]


def caused(error: Exception) -> Exception:
    """Return *error* as it is when it comes of another that says too much."""
    error.__cause__ = ValueError(STATE)
    return error


@dataclass
class Told:
    """What the worker has told those who run it.

    Attributes:
        spans: that a trace keeps.
        extra: whatever was logged beside deliveries and requests.
    """

    spans: KeptSpans = field(default_factory=KeptSpans)
    extra: list[str] = field(default_factory=list)

    @property
    def tracer(self) -> Tracer:
        return self.spans.tracer


@pytest.fixture(params=["json", "console"])
def told(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Told]:
    """Log as the worker does; at the end no customer is in logs, metrics, traces or troubles."""
    kept = structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    configure_log("debug", request.param)
    structlog.configure(cache_logger_on_first_use=False)  # or other tests would log here, too
    told = Told()
    try:
        yield told
    finally:
        structlog.configure(**kept)
        root.handlers[:] = handlers
        root.setLevel(level)
    written = capsys.readouterr()
    silent = written.out + written.err + generate_latest().decode() + json.dumps(last_troubles())
    assert told.extra or "delivery_finished" in silent or "request_finished" in silent
    assert [] == found(silent, EVERY)
    assert told.extra or "decision.re" in told.spans.text()
    assert [] == found(told.spans.text(), EVERY)


def found(text: str, canaries: tuple[str, ...]) -> list[str]:
    return [canary for canary in canaries if canary in text]


def holding(**objects: bytes) -> Opener:
    contents = {("papers", key): (content, "text/plain") for key, content in objects.items()}
    documents = FakeDocuments(objects=contents)
    return Opener(
        100_000, Bookcase(documents, AllowList((Prefix.parse("s3://papers"),)), max_bytes=200_000)
    )


async def carried(
    told: Told, body: str, opener: Opener | None = None, **faults: Exception
) -> dict[str, Any]:
    """Carry one message; return its outcome, in which there is nothing that must not be."""
    bench = make_bench(opener=opener, tracer=told.tracer)
    bench.engine.error = faults.pop("engine", None)
    for operation, error in faults.items():
        (bench.publisher if operation == "publish" else bench.inbox).faults.always[operation] = (
            error
        )
    await bench.handler.carry(await bench.receive(body))
    outcomes = [published.outcome for published in bench.publisher.published]
    attributes = [str(published.attributes) for published in bench.publisher.published]
    reasons = json.dumps([reason for _, reason in bench.inbox.dead_letters])
    text = json.dumps(outcomes, ensure_ascii=False)
    assert [] == found(text + reasons + "".join(attributes), TEXT)
    rejected = [outcome for outcome in outcomes if outcome["status"] == "rejected"]
    assert [] == found(json.dumps([one["error"]["message"] for one in rejected]), EVERY)
    return outcomes[0] if outcomes else {}


async def test_good_tickets(told: Told) -> None:
    """In a message, an envelope, S3, and with a document in S3, plain or packed."""
    bodies = {
        GOOD: None,
        make_envelope(GOOD): None,
        make_pointer(): holding(**{"a/b": GOOD.encode()}),
        json.dumps(ticket(state=..., state_uri="s3://papers/d")): holding(d=STATE.encode()),
        json.dumps(ticket(state=..., state_uri="s3://papers/e")): holding(
            e=gzip.compress(STATE.encode())
        ),
    }
    for body, opener in bodies.items():
        assert "decided" == (await carried(told, body, opener))["status"]


@pytest.mark.parametrize("body", BAD)
async def test_bad_tickets(told: Told, body: str) -> None:
    """However a ticket is spoilt, alone and in an envelope, it is rejected in our own words."""
    for way in (body, make_envelope(body)):
        assert "rejected" == (await carried(told, way, holding()))["status"]


async def test_tickets_that_cannot_be_read(told: Told) -> None:
    """Too large, gone, not allowed, no text, not now."""
    where = json.dumps(ticket(state=..., state_uri="s3://papers/d"))
    elsewhere = json.dumps(ticket(state=..., state_uri=f"s3://{STATE}/d"))
    assert "too_large" == (await carried(told, GOOD + STATE * 10_000))["error"]["code"]
    assert "rejected" == (await carried(told, where, holding()))["status"]
    assert "rejected" == (await carried(told, elsewhere, holding()))["status"]
    assert "rejected" == (await carried(told, where, holding(d=b"\xff" + STATE.encode())))["status"]
    assert "rejected" == (await carried(told, where, holding(d=STATE.encode() * 20_000)))["status"]
    unavailable = holding()
    assert isinstance(unavailable.bookcase, Bookcase)
    unavailable.bookcase.documents.faults.always["read"] = caused(AwsUnavailable("not now"))  # type: ignore[attr-defined]
    assert {} == await carried(told, where, unavailable)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_failures_of_the_queue_face(told: Told, fault: Exception) -> None:
    """What an exception says is not repeated, be it a bug's or one that ours came of."""
    await carried(told, GOOD, engine=caused(fault))
    for operation in ("publish", "delete", "release", "dead_letter"):
        for error in (caused(AwsUnavailable("not now")), caused(AwsUnusable("never"))):
            await carried(
                told, GOOD if operation != "dead_letter" else BAD[0], **{operation: error}
            )


def http_bodies() -> Iterator[tuple[bytes, Mapping[str, str]]]:
    decision = json.dumps({"decision": DECISION})
    for body in (GOOD, *BAD, decision, decision[:-3], json.dumps({"decision": DECISION, STATE: 1})):
        yield body.encode("utf-8", "surrogatepass"), JSON
    for spoilt in (
        DECISION | {"options": [OPTION]},
        DECISION | {"options": DECISION["options"] * 2},  # type: ignore[operator]
        DECISION | {"question": 7, "state": "<end>" + STATE},
        DECISION | {"state": "<end>" + STATE},
    ):
        yield json.dumps({"decision": spoilt}).encode(), JSON
        yield json.dumps({"decisions": [DECISION, spoilt]}).encode(), JSON
    yield "\n".join([GOOD, *BAD, decision]).encode("utf-8", "surrogatepass"), LINES
    yield GOOD.encode(), {"Content-Type": STATE}
    yield GOOD.encode(), JSON | {"Content-Encoding": STATE}
    yield GOOD.encode(), JSON | {"Content-Encoding": "gzip"}
    yield GOOD.encode(), JSON | {"Accept": STATE}
    yield GOOD.encode(), JSON | {"X-Request-Timeout": STATE}
    yield GOOD.encode(), JSON | {"Authorization": f"Bearer {STATE}"}
    yield GOOD.encode(), JSON | {"Expect": STATE}


async def test_requests(told: Told) -> None:
    """All formats, good and bad; a refusal says where, never what, and a path is not repeated."""
    async with open_bench(max_body_bytes=100_000, tracer=told.tracer) as bench:
        for body, headers in http_bodies():
            answered = await bench.ask("POST", "/invocations", data=body, headers=headers)
            assert [] == found(answered.text, TEXT), (body, headers)
        for path in (f"/{STATE}", f"/ping?{STATE}", f"/v1/models/{STATE}"):
            assert [] == found((await bench.get(path)).text, TEXT)
        health = await bench.get("/health")
        metrics = await bench.get("/metrics")
    assert [] == found(health.text + metrics.text, EVERY)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_failures_of_the_sidecar(told: Told, fault: Exception) -> None:
    """500, 503, 504 and the rest are in our own words, for every format."""
    bodies = (GOOD.encode(), json.dumps({"decision": DECISION}).encode())
    for body in bodies:
        async with open_bench(tracer=told.tracer) as bench:
            bench.engine.error = caused(fault)
            answers = [
                await bench.ask("POST", "/invocations", data=data, headers=headers)
                for data, headers in ((body, JSON), (body, LINES), (GOOD.encode(), JSON))
            ]
        for answered in answers:
            assert answered.status >= 400 or isinstance(fault, Rejected)
            assert [] == found(answered.text, TEXT)


async def test_libraries_that_say_too_much(told: Told) -> None:
    """Of an exception that a library logs, its type and its place are shown."""
    try:
        raise RuntimeError(STATE)
    except RuntimeError:
        logging.getLogger("library").warning("it failed", exc_info=True)
    told.extra.append("logged")


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_a_fault_in_words(error: Exception) -> None:
    """As Python prints it, with the messages of our own errors only; causes come first."""
    try:
        raise caused(error)
    except Exception as raised:  # noqa: BLE001 - whatever it is
        text, parts = fault_text(raised), fault_parts(raised)

    assert [] == found(text + json.dumps(parts), (STATE,))
    assert [type(error).__name__, "ValueError"] == [part["exc_type"] for part in parts][:2]
    assert text.index("ValueError") < text.rindex(type(error).__name__)
    assert (str(error) in text) == isinstance(error, WorkerError)
    assert "test_a_fault_in_words" == parts[0]["frames"][0]["name"]
