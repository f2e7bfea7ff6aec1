"""The trace that a message belongs to travels with its outcome."""

import json

import pytest
import structlog

from tests.factories import make_body, make_delivery
from tests.unit.queue.bench import make_bench
from tests.unit.queue.test_envelope import make_envelope
from worker.trace import AWS_HEADER, NO_TRACE, Trace, read_trace

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
X_RAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
X_RAY_PARENT = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8"


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "secret",
        PARENT.upper(),
        f"{PARENT}-more",
        f"ff{PARENT[2:]}",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
    ],
)
def test_what_is_no_trace_is_dropped(parent: str) -> None:
    """Neither it nor the state that came with it is carried on."""
    assert NO_TRACE == read_trace({"traceparent": parent, "tracestate": "vendor=1"})


def test_a_trace_is_carried_as_it_came() -> None:
    """Parent and state; a state that is none is left out."""
    trace = read_trace({"traceparent": PARENT, "tracestate": "vendor=1"})
    odd = read_trace({"traceparent": PARENT, "tracestate": "für\n"})

    assert TRACE_ID == trace.trace_id
    assert {"traceparent": PARENT, "tracestate": "vendor=1"} == {
        name: attribute.value for name, attribute in trace.attributes().items()
    }
    assert ["traceparent"] == list(odd.attributes())


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (X_RAY, f"{X_RAY_PARENT}-01"),
        (X_RAY.replace("=1", "=0"), ""),
        (X_RAY.removesuffix(";Sampled=1"), f"{X_RAY_PARENT}-00"),
        ("Root=1-5759e988-bd862e3fe1be46a994272793", ""),
        ("secret", ""),
    ],
)
def test_an_x_ray_header_stands_in(header: str, expected: str) -> None:
    """Its ids make a traceparent; without both there is none. A traceparent goes first."""
    assert Trace(expected, aws_header=header) == read_trace({}, header)
    assert PARENT == read_trace({"traceparent": PARENT}, header).parent


@pytest.mark.parametrize("body", [make_body(ticket_id="t-1"), "{}"])
@pytest.mark.parametrize("in_envelope", [False, True])
async def test_outcomes_and_rejections_carry_the_trace(body: str, in_envelope: bool) -> None:
    """From the message's attributes or its SNS envelope's; with at most ten attributes in all."""
    bench = make_bench()
    attributes = {"traceparent": PARENT, "tracestate": "vendor=1"}
    if in_envelope:
        tree = json.loads(make_envelope(body))
        tree["MessageAttributes"] = {
            name: {"Type": "String", "Value": value} for name, value in attributes.items()
        }
        body, attributes = json.dumps(tree), {}
    [received] = [await bench.receive(body)]
    delivery = make_delivery(
        message_id=received.message_id,
        receipt_handle=received.receipt_handle,
        body=body,
        asked_at=received.asked_at,
        attributes=attributes,
    )
    with structlog.testing.capture_logs(
        processors=[structlog.contextvars.merge_contextvars]
    ) as logged:
        await bench.handler.carry(delivery)

    [published] = bench.publisher.published
    assert PARENT == published.attributes["traceparent"].value
    assert "vendor=1" == published.attributes["tracestate"].value
    assert len(published.attributes) <= 10
    assert {TRACE_ID} == {line["trace_id"] for line in logged if line["event"] != "ready"}


def test_the_names_are_aws_own() -> None:
    """The system attribute is called as SQS calls it."""
    assert "AWSTraceHeader" == AWS_HEADER
