"""A request as a trace tells it."""

import asyncio
import json

import pytest
import structlog
from opentelemetry.trace import SpanKind, StatusCode

from tests.spans import KeptSpans, attributes, ids, parent
from tests.unit.queue.test_trace import PARENT, TRACE_ID, X_RAY, X_RAY_PARENT
from tests.unit.sidecar.bench import LINES, make_request, open_bench
from worker.errors import DecodeFailed


@pytest.fixture
def kept() -> KeptSpans:
    return KeptSpans()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"traceparent": PARENT}, PARENT),
        ({"X-Amzn-Trace-Id": X_RAY}, f"{X_RAY_PARENT}-01"),
    ],
)
async def test_a_request_in_its_callers_trace(
    kept: KeptSpans, headers: dict[str, str], expected: str
) -> None:
    """W3C's headers or X-Ray's; the evaluation is a part of the request."""
    async with open_bench(tracer=kept.tracer) as bench:
        answered = await bench.post(make_request(), **headers)
    request, evaluate = kept.one("POST"), kept.one("evaluate")

    assert expected.split("-")[1:3] == [ids(request)[0], parent(request)]
    assert ids(request)[1] == parent(evaluate)
    assert ("POST /invocations", SpanKind.SERVER) == (request.name, request.kind)
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/invocations",
        "url.path": "/invocations",
        "url.scheme": "http",
        "http.response.status_code": 200,
        "decision.request_id": answered.headers["x-typesafe-request-id"],
    }
    assert "interactive" == attributes(evaluate)["decision.lane"]


@pytest.mark.parametrize("keeps", [True, False])
async def test_log_lines_tell_the_trace(kept: KeptSpans, keeps: bool) -> None:
    """Whether spans are kept or not."""
    async with open_bench(**{"tracer": kept.tracer} if keeps else {}) as bench:
        with structlog.testing.capture_logs(
            processors=[structlog.contextvars.merge_contextvars]
        ) as logged:
            await bench.post(make_request(), traceparent=PARENT)

    assert [TRACE_ID] == [
        line["trace_id"] for line in logged if line["event"] == "request_finished"
    ]


async def test_probes_leave_no_span(kept: KeptSpans) -> None:
    """Nor do paths that callers make up."""
    async with open_bench(tracer=kept.tracer) as bench:
        for path in ("/ping", "/metrics", "/health", "/made-up"):
            await bench.get(path)
        await bench.post(make_request(), "/made-up")
        await bench.post(make_request(), "/ping")

    assert () == kept.all()


async def test_refusals_and_faults(kept: KeptSpans) -> None:
    """What the caller must change is no fault of ours; what it may try again is."""
    async with open_bench(tracer=kept.tracer) as bench:
        await bench.post(b"{")
        bench.engine.error = DecodeFailed("no")
        await bench.post(make_request())
    refused, failed = [span for span in kept.all() if span.name.startswith("POST")]

    assert ("422", StatusCode.UNSET) == (
        attributes(refused)["error.type"],
        refused.status.status_code,
    )
    assert (str(attributes(failed)["http.response.status_code"]), StatusCode.ERROR) == (
        attributes(failed)["error.type"],
        failed.status.status_code,
    )
    assert "DecodeFailed" == attributes(kept.one("evaluate"))["error.type"]


async def test_every_line_has_an_evaluation_of_its_own(kept: KeptSpans) -> None:
    """All of them in the one request."""
    async with open_bench(tracer=kept.tracer) as bench:
        body = "\n".join(json.dumps(make_request()) for _ in range(3)).encode()
        await bench.ask("POST", "/invocations", data=body, headers=LINES)
    request = kept.one("POST")
    evaluated = [span for span in kept.all() if span.name.startswith("evaluate")]

    assert [ids(request)[1]] * 3 == [parent(span) for span in evaluated]


async def test_a_caller_who_hangs_up(kept: KeptSpans) -> None:
    """The request ends with its evaluation, and says so."""
    async with open_bench(tracer=kept.tracer) as bench:
        bench.engine.gate = asyncio.Event()
        asking = asyncio.create_task(bench.post(make_request()))
        await bench.engine.journal.until("evaluate")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        while len(kept.all()) < 2:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)

    assert "CancelledError" == attributes(kept.one("POST"))["error.type"]
