"""What every answer carries, and the routes that ask no question."""

import asyncio
import json
import uuid
from typing import Any

import pytest

from tests.factories import make_tree
from tests.unit.sidecar.bench import JSON, make_request, open_bench
from worker import metrics
from worker.troubles import last_troubles

REQUEST_ID = "x-typesafe-request-id"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


async def test_every_answer_has_an_id_of_its_own() -> None:
    """Good or bad; it is the ticket's id where the request names none."""
    async with open_bench() as bench:
        answers = [
            await bench.post(make_request()),
            await bench.post(b"{"),
            await bench.post(b"{}", **{"Content-Type": "text/csv"}),
            await bench.get("/ping"),
            await bench.get("/metrics"),
            await bench.get("/nowhere"),
            await bench.get("/invocations"),
        ]
    ids = [answered.headers[REQUEST_ID] for answered in answers]

    assert [200, 422, 415, 200, 200, 404, 405] == [answered.status for answered in answers]
    assert len(ids) == len({uuid.UUID(text) for text in ids})
    assert ids[0] == answers[0].body["x_worker"]["ticket_id"]
    assert {"decision-worker"} == {answered.headers["Server"] for answered in answers}


async def test_what_is_no_route() -> None:
    """404 and 405 in a shape that clients of both formats read."""
    async with open_bench() as bench:
        nowhere = await bench.get("/secret")
        wrong = await bench.ask("DELETE", "/v1/systemone")

    assert ("not_found_error", "there is no such path", False) == (
        nowhere.body["detail"]["error_type"],
        nowhere.body["error"],
        nowhere.body["retryable"],
    )
    assert ("POST", ["detail"]) == (wrong.headers["Allow"], list(wrong.body))


@pytest.mark.parametrize(
    "sent", [b"GET /\x01secret HTTP/1.1\r\n\r\n", b"secret\r\n\r\n", b"\x16\x03\x01secret"]
)
async def test_what_is_not_http(sent: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """400 in our own words: nothing of it comes back, and nothing reaches the log."""
    async with open_bench() as bench:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.sidecar.port)
        writer.write(sent)
        writer.write_eof()
        answered = await reader.read()
        writer.close()

    if answered:  # what may still become HTTP is not answered
        assert answered.startswith(b"HTTP/1.1 400 ")
        assert b'"bad_request"' in answered
        assert REQUEST_ID.encode() in answered
    assert b"secret" not in answered
    assert "secret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "head", [{"path": "/" + "x" * 9000}, {"path": "/ping", "headers": {"x-long": "x" * 9000}}]
)
async def test_a_head_that_is_too_long(head: dict[str, Any]) -> None:
    """431 names the limit."""
    async with open_bench() as bench:
        answered = await bench.ask("GET", **head)

    assert 431 == answered.status
    assert "8190 bytes" in answered.body["detail"]["message"]


@pytest.mark.parametrize(
    ("sent", "returned"), [("trace=7", "trace=7"), ("x" * 1025, None), ("a\tb", None)]
)
async def test_custom_attributes_come_back(sent: str, returned: str | None) -> None:
    """As SageMaker passes them, when they are what it would pass; on errors too."""
    async with open_bench() as bench:
        answers = [await bench.post(body, **{ATTRIBUTES: sent}) for body in (make_request(), b"{}")]

    assert [returned] * 2 == [answered.headers.get(ATTRIBUTES) for answered in answers]


@pytest.mark.parametrize("path", ["/ping", "/nowhere", "/health?a=b"])
async def test_what_nobody_expects(path: str) -> None:
    """417 in our own words: the expectation does not come back."""
    async with open_bench() as bench:
        answered = await bench.get(path, headers={"Expect": "secret"})

    assert (417, "expectation_failed", "decision-worker") == (
        answered.status,
        answered.body["detail"]["error_type"],
        answered.headers["Server"],
    )
    assert "secret" not in answered.text
    assert uuid.UUID(answered.headers[REQUEST_ID])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("Accept", "text/csv"), ("Accept", "application/json")], 200),
        ([("Content-Encoding", "identity"), ("Content-Encoding", "gzip")], 415),
        ([("Content-Encoding", "gzip"), ("Content-Encoding", "identity")], 415),
        ([("X-Request-Timeout", "5"), ("X-Request-Timeout", "secret")], 400),
    ],
)
async def test_a_header_that_comes_twice(headers: list[tuple[str, str]], status: int) -> None:
    """All its values count, as if they stood in one, not the first of them."""
    body = json.dumps(make_request())
    async with open_bench() as bench:
        answered = await bench.ask(
            "POST", "/invocations", data=body, headers=[*JSON.items(), *headers]
        )

    assert status == answered.status
    assert "secret" not in answered.text


async def test_accept_is_honoured() -> None:
    """406 before any work is done."""
    async with open_bench() as bench:
        refused = await bench.post(make_request(), Accept="text/csv")
        answered = await bench.post(make_request(), Accept="text/csv, application/*;q=0.2")
        evaluations = bench.engine.evaluations

    assert (406, 200, 1) == (refused.status, answered.status, len(evaluations))


async def test_ping_stays_good_while_busy_and_not_while_stalled() -> None:
    """Busy is healthy; work that makes no progress is not."""
    async with open_bench(stall_seconds=30) as bench:
        bench.engine.gate = asyncio.Event()
        running = asyncio.create_task(bench.post(make_request()))
        while not bench.engine.at_work:  # noqa: ASYNC110 - the fake sets no event for us
            await asyncio.sleep(0)
        busy = await bench.get("/ping")
        bench.engine.stalled = 31.0
        stalled = await bench.get("/ping")
        health = await bench.get("/health")
        bench.engine.gate.set()
        await running

    assert (200, {"status": "ready"}) == (busy.status, busy.body)
    assert (503, {"status": "stalled"}) == (stalled.status, stalled.body)
    assert (503, 31.0) == (health.status, health.body["engine"]["stalled_seconds"])


async def test_health() -> None:
    """Phase, places, the last poll, and the engine's queue."""
    async with open_bench() as bench:
        bench.engine.waiting_tokens = 7
        metrics.LAST_POLL.set(0)
        before = await bench.get("/health")
        metrics.LAST_POLL.set(1234.5)
        after = await bench.get("/health")
        metrics.LAST_POLL.set(0)

    assert {
        "phase": "ready",
        "requests_in_progress": 0,
        "last_successful_poll_timestamp_seconds": None,
        "engine": {"waiting_tokens": 7, "stalled_seconds": 0.0},
        "feedback": {},
        "drift": {},
        "last_troubles": last_troubles(),
    } == before.body
    assert 1234.5 == after.body["last_successful_poll_timestamp_seconds"]


async def test_models() -> None:
    """One model, for System One's clients and for those of OpenAI's list."""
    async with open_bench() as bench:
        answered = await bench.get("/v1/models")

    assert [{"name": "tiny", "description": "llama F32", "release_date": ""}] == answered.body[
        "models"
    ]
    assert ("list", ["tiny"]) == (
        answered.body["object"],
        [model["id"] for model in answered.body["data"]],
    )


@pytest.mark.parametrize(
    ("max_body_bytes", "payload", "concurrent"), [(2**10, 1, 2), (6 * 2**20, 6, 2), (2**30, 100, 1)]
)
async def test_execution_parameters(max_body_bytes: int, payload: int, concurrent: int) -> None:
    """What a batch transform may send: never over 100 MiB in all, as SageMaker demands."""
    async with open_bench(max_body_bytes=max_body_bytes) as bench:
        answered = await bench.get("/execution-parameters")

    assert {
        "MaxConcurrentTransforms": concurrent,
        "BatchStrategy": "MULTI_RECORD",
        "MaxPayloadInMB": payload,
    } == answered.body


async def test_feedback_is_counted() -> None:
    """On what this worker answered itself; what is wrong is refused as System One refuses."""
    told = {"ticket_id": "mine", "question": "refund", "decided": False}
    async with open_bench() as bench:
        await bench.post(make_tree(ticket_id="mine"), "/v1/systemone")
        answers = [await bench.post(told, "/v1/feedback") for _ in range(2)]
        unknown = await bench.post(told | {"ticket_id": "other"}, "/v1/feedback")
        wrong = await bench.post(told | {"decided": None}, "/v1/feedback")
        large = await bench.post(b" " * (1 << 17), "/v1/feedback")
        health = await bench.get("/health")
        bench.lifecycle.stop("test")
        late = await bench.post(told, "/v1/feedback")

    first, second = (answer.body["result"] for answer in answers)
    assert first in ("upheld", "overturned")
    assert "repeated" == second
    assert "unknown" == unknown.body["result"]
    assert {"other": {first: 1, "unknown": 1}} == health.body["feedback"]
    assert [422, 413, 503] == [wrong.status, large.status, late.status]
    assert ["body", "decided"] == wrong.body["detail"][0]["loc"][:2]
