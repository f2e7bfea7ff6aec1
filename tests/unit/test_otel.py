"""Spans on their way to a collector: sent in the background, lost rather than waited for."""

import asyncio
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import structlog
from opentelemetry.semconv._incubating.attributes import (
    aws_attributes,
    error_attributes,
    gen_ai_attributes,
    http_attributes,
    messaging_attributes,
    url_attributes,
)
from prometheus_client import REGISTRY

from tests.factories import make_body
from tests.spans import KeptSpans, open_collector
from tests.unit.queue.bench import make_bench
from tests.unit.sidecar.bench import make_request, open_bench
from worker import __version__
from worker.errors import ExitCode, UsageError
from worker.otel.export import open_tracer, resource
from worker.otel.extra import check_extra
from worker.settings import otlp_protocol
from worker.tracing import Kind

CONVENTIONS = (
    aws_attributes,
    error_attributes,
    gen_ai_attributes,
    http_attributes,
    messaging_attributes,
    url_attributes,
)


def sent(result: str) -> float:
    return REGISTRY.get_sample_value("decision_spans_sent_total", {"result": result}) or 0.0


def send_to(monkeypatch: pytest.MonkeyPatch, port: int, *, each_ms: int = 10) -> None:
    """Set OpenTelemetry's own variables, as an operator does."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", str(each_ms))


@pytest.fixture
def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - another thread brings it about
        await asyncio.sleep(0.01)


async def test_a_collector_is_sent_every_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a real socket, also while the worker runs; at the end what is left is flushed."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=night")
    before = sent("sent")
    async with open_collector() as collector:
        send_to(monkeypatch, collector.port)
        async with open_tracer(lambda: 5.0) as tracer:
            with tracer.span("first", Kind.INTERNAL, {"decision.questions": 2}):
                pass
            await until(lambda: sent("sent") - before == 1)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
        async with open_tracer(lambda: 5.0) as tracer:
            with tracer.span("last", Kind.INTERNAL, {}):
                pass
        [first, last] = collector.spans()
        told = collector.resource()

    assert ["first", "last"] == [first.name, last.name]
    assert [("decision.questions", 2)] == [
        (one.key, one.value.int_value) for one in first.attributes
    ]
    assert 2 == sent("sent") - before
    assert ("decision-worker", __version__, "night") == (
        told["service.name"],
        told["service.version"],
        told["deployment.environment.name"],
    )


def test_an_operator_may_name_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's own variable wins."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "triage")

    assert "triage" == resource().attributes["service.name"]


async def test_a_collector_that_is_down(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """Spans are lost and counted; one event tells of it, however long it lasts."""
    send_to(monkeypatch, free_port)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")  # no time for another try
    before = sent("lost")
    with structlog.testing.capture_logs() as logged:
        async with open_tracer(lambda: 5.0) as tracer:
            for lost in (1, 2, 3):
                with tracer.span("work", Kind.INTERNAL, {}):
                    pass
                await until(lambda lost=lost: sent("lost") - before == lost)

    assert [{"event": "spans_lost", "log_level": "warning", "spans": 1}] == logged


async def test_a_collector_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One event tells that as well."""
    async with open_collector() as collector:
        send_to(monkeypatch, collector.port)
        collector.status = 400
        before = sent("lost")
        with structlog.testing.capture_logs() as logged:
            async with open_tracer(lambda: 5.0) as tracer:
                with tracer.span("one", Kind.INTERNAL, {}):
                    pass
                await until(lambda: sent("lost") - before == 1)
                collector.status = 200
                with tracer.span("two", Kind.INTERNAL, {}):
                    pass

    assert ["spans_lost", "spans_accepted"] == [line["event"] for line in logged]


async def test_a_collector_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Far more spans than fit wait, the work goes on; a stop goes on after its deadline."""
    async with open_collector() as collector:
        send_to(monkeypatch, collector.port)
        collector.gate.clear()
        with structlog.testing.capture_logs() as logged:
            async with open_tracer(lambda: 0.0) as tracer:
                bench = make_bench(tracer=tracer)
                await bench.carry(make_body())
                await until(lambda: bool(collector.requests))
                for _ in range(5_000):
                    with tracer.span("work", Kind.INTERNAL, {}):
                        pass
        assert ["spans_abandoned"] == [
            line["event"] for line in logged if line["event"] != "delivery_finished"
        ]
        # What the process would take along when it ends; here others come after it.
        collector.gate.set()
        closing = [one for one in threading.enumerate() if one.name == "spans-closing"]
        await asyncio.to_thread(lambda: [one.join() for one in closing])

    assert 1 == len(bench.publisher.published)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
    ],
)
async def test_a_variable_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Told in one line, as any setting."""
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="OpenTelemetry's variables: "):
        async with open_tracer(lambda: 5.0):
            pass


async def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody would see why nothing arrives."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(UsageError, match="http/protobuf"):
        async with open_tracer(lambda: 5.0, otlp_protocol()):
            pass


@pytest.mark.parametrize("name", ["opentelemetry.sdk", "opentelemetry.exporter"])
def test_the_extra_is_missing(name: str) -> None:
    """Asked for without it, the worker says what to install, and ends with code 2."""

    def find(module: str) -> Any:
        if module.startswith(name):
            raise ModuleNotFoundError(name)
        return find_spec(module)

    check_extra()
    with pytest.raises(UsageError, match=r"pip install 'decision-worker\[tracing\]'") as caught:
        check_extra(find)

    assert ExitCode.USAGE == caught.value.exit_code


async def test_names_are_the_conventions_own() -> None:
    """Each attribute is one that OpenTelemetry's package lists, or begins with ours."""
    kept = KeptSpans()
    await make_bench(tracer=kept.tracer).carry(make_body())
    await make_bench(tracer=kept.tracer).carry("{")
    async with open_bench(tracer=kept.tracer) as bench:
        await bench.post(make_request())
        await bench.post(b"{")
    listed = {
        value
        for module in CONVENTIONS
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    used = {name for span in kept.all() for name in span.attributes or {}}

    assert {name for name in used if not name.startswith("decision.")} <= listed
    assert {"aws_sqs", "aws.sns"} == {
        span.attributes["messaging.system"]
        for span in kept.all()
        if span.attributes and "messaging.system" in span.attributes
    }
    values = messaging_attributes.MessagingSystemValues
    assert {"aws_sqs", "aws.sns"} == {values.AWS_SQS.value, values.AWS_SNS.value}
