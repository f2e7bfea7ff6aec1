"""Spans that are kept in memory, and a collector on a socket."""

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from worker.otel.tracer import OtelTracer


class KeptSpans:
    """What a tracer has kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OtelTracer(provider)

    def all(self) -> tuple[ReadableSpan, ...]:
        """Return every span that has ended, in the order of their ends."""
        return self._exporter.get_finished_spans()

    def one(self, operation: str) -> ReadableSpan:
        """Return the only span whose name begins with that word."""
        [span] = [span for span in self.all() if span.name.split()[0] == operation]
        return span

    def text(self) -> str:
        """Return everything that the spans say: status, events and links included."""
        return "\n".join(span.to_json() for span in self.all())


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> tuple[str, str]:
    """Return trace and span, as ``traceparent`` spells them."""
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def parent(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def links(span: ReadableSpan) -> list[tuple[str, str]]:
    return [(f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}") for one in span.links]


@dataclass
class Collector:
    """An OTLP receiver.

    Attributes:
        gate: what every answer waits for.
        status: how it answers.
        requests: what it was sent.
    """

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 200
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    port: int = 0

    async def post(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.requests.append(ExportTraceServiceRequest.FromString(body))
        await self.gate.wait()
        return web.Response(status=self.status)

    def spans(self) -> Iterator[Any]:
        for request in self.requests:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    yield from scope.spans

    def resource(self) -> dict[str, str]:
        """Return who sent the first request."""
        kept = self.requests[0].resource_spans[0].resource
        return {one.key: one.value.string_value for one in kept.attributes}


@asynccontextmanager
async def open_collector() -> AsyncIterator[Collector]:
    """Listen on a free port of this machine; the gate is open."""
    collector = Collector()
    collector.gate.set()
    application = web.Application()
    application.router.add_post("/v1/traces", collector.post)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.port = runner.addresses[0][1]
    try:
        yield collector
    finally:
        await runner.cleanup()


@contextmanager
def collector_in_thread() -> Iterator[Collector]:
    """Listen while the body blocks."""
    opened: Future[Collector] = Future()
    loop = asyncio.new_event_loop()
    done = asyncio.Event()

    async def collect() -> None:
        async with open_collector() as collector:
            opened.set_result(collector)
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(collect()))
    thread.start()
    try:
        yield opened.result(timeout=60)
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
