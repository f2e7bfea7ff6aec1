"""A delivery as a trace tells it: receive, process, evaluate, publish, delete."""

import asyncio
import json
from typing import Any

import pytest
import structlog
from opentelemetry.trace import SpanKind, StatusCode

from tests.factories import make_body
from tests.spans import KeptSpans, attributes, ids, links, parent
from tests.unit.queue.bench import QUEUE_URL, TOPIC_ARN, make_bench
from tests.unit.queue.test_consumer import running
from tests.unit.queue.test_envelope import make_envelope
from tests.unit.queue.test_trace import PARENT, TRACE_ID, X_RAY, X_RAY_PARENT
from worker.errors import AwsUnavailable, EngineBusy

SENDER = PARENT.split("-")[2]
TOLD = {"traceparent": PARENT, "tracestate": "vendor=1"}
SQS = {
    "messaging.system": "aws_sqs",
    "messaging.destination.name": "tickets",
    "aws.sqs.queue.url": QUEUE_URL,
}


@pytest.fixture
def kept() -> KeptSpans:
    return KeptSpans()


async def test_one_trace_from_the_sender_to_the_outcome(kept: KeptSpans) -> None:
    """The sender's span is the parent, the poll a link; the outcome carries the last span on."""
    bench = make_bench(tracer=kept.tracer)
    bench.inbox.put(make_body(ticket_id="t-1"), attributes=TOLD)
    async with running(bench, bench.consumer()):
        await bench.journal.until("delete")
    spans = {name: kept.one(name) for name in ("process", "evaluate", "publish", "delete")}
    receive, process = kept.one("receive"), spans["process"]

    assert {TRACE_ID} == {ids(span)[0] for span in spans.values()}
    assert SENDER == parent(process)
    assert [ids(receive)] == links(process)
    assert [(TRACE_ID, SENDER)] == links(receive)
    assert {ids(process)[1]} == {parent(spans[name]) for name in ("evaluate", "publish", "delete")}
    [published] = bench.publisher.published
    assert (
        f"00-{TRACE_ID}-{ids(spans['publish'])[1]}-01" == published.attributes["traceparent"].value
    )
    assert "vendor=1" == published.attributes["tracestate"].value


async def test_what_spans_say(kept: KeptSpans) -> None:
    """Conventional names and kinds; a word of each, and no more."""
    bench = make_bench(tracer=kept.tracer)
    bench.inbox.put(make_body(ticket_id="t-1"))
    bench.inbox.put(make_body(ticket_id="t-2"))
    async with running(bench, bench.consumer()):
        await bench.journal.until("delete", times=2)
    receive = kept.one("receive")
    process, evaluate, publish, delete = (
        next(span for span in kept.all() if span.name.startswith(f"{name} "))
        for name in ("process", "evaluate", "publish", "delete")
    )
    outcome = bench.publisher.published[0].outcome

    assert ("receive tickets", SpanKind.CLIENT) == (receive.name, receive.kind)
    assert attributes(receive) == SQS | {
        "messaging.operation.name": "receive",
        "messaging.operation.type": "receive",
        "messaging.batch.message_count": 2,
    }
    assert ("process tickets", SpanKind.CONSUMER) == (process.name, process.kind)
    assert attributes(process) == SQS | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": "m-1",
        "decision.receive_count": 1,
        "decision.ticket_id": "t-1",
        "decision.result": "decided",
    }
    model = outcome["provenance"]["model"]
    assert (f"evaluate {model['name']}", SpanKind.INTERNAL) == (evaluate.name, evaluate.kind)
    assert attributes(evaluate) == {
        "gen_ai.operation.name": "evaluate",
        "gen_ai.provider.name": "llama.cpp",
        "gen_ai.request.model": model["name"],
        "gen_ai.response.model": model["name"],
        "gen_ai.response.id": outcome["outcome_id"],
        "gen_ai.usage.input_tokens": outcome["usage"]["input_tokens"],
        "gen_ai.usage.cache_read.input_tokens": outcome["usage"]["reused_tokens"],
        "gen_ai.usage.output_tokens": 0,
        "decision.model.sha256": model["sha256"],
        "decision.lane": "batch",
        "decision.alone": False,
        "decision.questions": len(outcome["answers"]),
        "decision.disposition": outcome["disposition"],
        "decision.evaluated_tokens": outcome["usage"]["evaluated_tokens"],
        "decision.waiting_seconds": outcome["timings"]["waiting_seconds"],
        "decision.evaluation_seconds": outcome["timings"]["evaluation_seconds"],
    }
    assert ("publish outcomes", SpanKind.PRODUCER) == (publish.name, publish.kind)
    assert attributes(publish) == {
        "messaging.system": "aws.sns",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "outcomes",
        "aws.sns.topic.arn": TOPIC_ARN,
        "decision.outcome_id": outcome["outcome_id"],
        "decision.status": "decided",
    }
    assert ("delete tickets", SpanKind.CLIENT) == (delete.name, delete.kind)
    assert attributes(delete) == SQS | {
        "messaging.operation.name": "delete",
        "messaging.operation.type": "settle",
        "messaging.message.id": "m-1",
    }


async def test_a_ticket_without_a_trace_begins_one_of_its_own(kept: KeptSpans) -> None:
    """Not the poll's, in which nine others may have come; log lines tell it."""
    bench = make_bench(tracer=kept.tracer)
    bench.inbox.put(make_body(ticket_id="t-1"))
    with structlog.testing.capture_logs(
        processors=[structlog.contextvars.merge_contextvars]
    ) as logged:
        async with running(bench, bench.consumer()):
            await bench.journal.until("delete")
    process = kept.one("process")

    assert parent(process) is None
    assert ids(process)[0] != ids(kept.one("receive"))[0]
    [finished] = [line for line in logged if line["event"] == "delivery_finished"]
    assert ids(process)[0] == finished["trace_id"]
    [published] = bench.publisher.published
    assert ids(process)[0] == published.attributes["traceparent"].value.split("-")[1]


async def test_polls_that_bring_nothing_leave_no_span(kept: KeptSpans) -> None:
    """There is one every few seconds, all night."""
    bench = make_bench(tracer=kept.tracer)
    async with running(bench, bench.consumer()):
        await bench.journal.until("receive", times=3)

    assert () == kept.all()


@pytest.mark.parametrize("way", ["envelope", "x-ray"])
async def test_where_else_a_trace_is_told(kept: KeptSpans, way: str) -> None:
    """In an SNS envelope's attributes; in the header of X-Ray, whose ids are the same."""
    bench = make_bench(tracer=kept.tracer)
    body, fields = make_body(), {}
    expected = (TRACE_ID, SENDER)
    if way == "envelope":
        tree = json.loads(make_envelope(body))
        tree["MessageAttributes"] = {
            name: {"Type": "String", "Value": value} for name, value in TOLD.items()
        }
        body = json.dumps(tree)
    else:
        fields = {"trace_header": X_RAY}
        expected = (X_RAY_PARENT.split("-")[1], X_RAY_PARENT.split("-")[2])
    await bench.carry(body, **fields)
    process = kept.one("process")

    assert expected == (ids(process)[0], parent(process))


async def test_what_the_sender_does_not_sample_is_not_kept(kept: KeptSpans) -> None:
    """But the trace travels on, still unsampled."""
    bench = make_bench(tracer=kept.tracer)
    await bench.carry(make_body(), attributes={"traceparent": f"{PARENT[:-2]}00"})

    assert () == kept.all()
    [published] = bench.publisher.published
    told = published.attributes["traceparent"].value
    assert (TRACE_ID, "00") == (told.split("-")[1], told.split("-")[3])


@pytest.mark.parametrize(
    ("body", "faults", "result", "error_type", "status"),
    [
        ("{", {}, "rejected", "invalid_ticket", StatusCode.UNSET),
        (make_body(), {"engine": EngineBusy(1, 2)}, "released", "EngineBusy", StatusCode.ERROR),
        (make_body(), {"engine": KeyError("text")}, "failed", "KeyError", StatusCode.ERROR),
        (
            make_body(),
            {"publish": AwsUnavailable("not now")},
            "released",
            "AwsUnavailable",
            StatusCode.ERROR,
        ),
    ],
)
async def test_failures_are_told_by_their_kind(
    kept: KeptSpans,
    body: str,
    faults: dict[str, Exception],
    result: str,
    error_type: str,
    status: StatusCode,
) -> None:
    """Whose fault it was shows in the status; what an exception says shows nowhere."""
    bench = make_bench(tracer=kept.tracer)
    bench.engine.error = faults.get("engine")
    if error := faults.get("publish"):
        bench.publisher.faults.always["publish"] = error
    await bench.carry(body)
    process = kept.one("process")

    assert (result, error_type) == (
        attributes(process)["decision.result"],
        attributes(process)["error.type"],
    )
    assert status == process.status.status_code
    assert {None} == {span.status.description for span in kept.all()}
    assert [] == [event for span in kept.all() for event in span.events]


async def test_a_lost_lease_is_told(kept: KeptSpans) -> None:
    """The evaluation was cancelled; the delivery was lost."""
    bench = make_bench(tracer=kept.tracer)
    bench.engine.gate = asyncio.Event()
    await bench.carry(make_body())

    assert ("LeaseLost", "lost") == (
        attributes(kept.one("process"))["error.type"],
        attributes(kept.one("process"))["decision.result"],
    )
    assert "CancelledError" == attributes(kept.one("evaluate"))["error.type"]


async def test_a_message_that_comes_again_is_deleted_in_its_trace(kept: KeptSpans) -> None:
    """Its outcome is out: there is nothing to evaluate."""
    bench = make_bench(tracer=kept.tracer)
    bench.inbox.faults.once["delete"].append(AwsUnavailable("not now"))
    delivery = await bench.carry(make_body(), attributes=TOLD)
    bench.inbox.messages[delivery.message_id].visible_at = 0
    [again] = await bench.inbox.receive(1)
    await bench.handler.carry(again)
    process = [span for span in kept.all() if span.name == "process tickets"][-1]
    delete = [span for span in kept.all() if span.name == "delete tickets"][-1]

    assert (SENDER, ids(process)[1]) == (parent(process), parent(delete))
    assert 2 == attributes(process)["decision.receive_count"]
    assert 1 == len([span for span in kept.all() if span.name.startswith("evaluate")])


async def test_without_tracing_the_senders_trace_travels_as_it_came() -> None:
    """Nothing is kept, nothing is changed."""
    bench = make_bench()
    await bench.carry(make_body(), attributes=TOLD)
    told: dict[str, Any] = {
        name: attribute.value
        for name, attribute in bench.publisher.published[0].attributes.items()
        if name in TOLD
    }

    assert TOLD == told
