"""Send spans to a collector, in a thread that nothing waits for."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from worker import __version__, metrics
from worker.errors import UsageError
from worker.otel.tracer import OtelTracer
from worker.tracing import Tracer

PROTOCOL = "http/protobuf"
_FLUSH_SECONDS = 5.0
# When the drain has used up its time, or when the collector has not answered before.
_SHORT_FLUSH_SECONDS = 1.0

_log = structlog.get_logger()


@asynccontextmanager
async def open_tracer(
    left_seconds: Callable[[], float], protocol: str | None = None
) -> AsyncIterator[Tracer]:
    """Send spans over OTLP, as OpenTelemetry's own variables (``OTEL_*``) say.

    What the collector does not take in time is lost, and counted. At the end what is left is sent,
    within the time there is.

    Args:
        left_seconds: how long closing may take.
        protocol: that OpenTelemetry's variables ask for, if they do.

    Raises:
        UsageError: a variable is wrong.
    """
    if protocol not in (None, PROTOCOL):
        raise UsageError(
            f"spans go over {PROTOCOL}, not over what OTEL_EXPORTER_OTLP_PROTOCOL says"
        )
    exporter, provider = _open_provider()  # which warns of variables that it cannot read
    # From here on there would be a line for each failed call, with what the collector says.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    try:
        yield OtelTracer(provider)
    finally:
        seconds = min(_FLUSH_SECONDS, left_seconds())
        if exporter.is_failing or seconds < _SHORT_FLUSH_SECONDS:
            seconds = _SHORT_FLUSH_SECONDS
        await _close(provider, seconds)


def resource() -> Resource:
    """Return who sends: the worker by its own name, unless OpenTelemetry's variables name it."""
    ours = Resource({"service.name": "decision-worker", "service.version": __version__})
    return Resource.create().merge(ours).merge(OTELResourceDetector().detect())


class CountingExporter(SpanExporter):
    """Counts what another exporter sends, and tells once when that fails.

    Args:
        exporter: that sends.

    Attributes:
        is_failing: whether the last call failed.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send *spans*."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            self._note(len(spans), failed=result is not SpanExportResult.SUCCESS)
        return result

    def _note(self, spans: int, *, failed: bool) -> None:
        metrics.SPANS_SENT.labels("lost" if failed else "sent").inc(spans)
        if failed and not self.is_failing:
            _log.warning("spans_lost", spans=spans)
        elif self.is_failing and not failed:
            _log.info("spans_accepted", spans=spans)
        self.is_failing = failed

    def shutdown(self) -> None:
        """Give up what is being sent."""
        self._exporter.shutdown()


def _open_provider() -> tuple[CountingExporter, TracerProvider]:
    try:
        exporter = CountingExporter(OTLPSpanExporter())
        # Closed here, within the time to stop: not whenever the interpreter ends.
        provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(exporter))
    except ValueError as error:
        raise UsageError(f"OpenTelemetry's variables: {error}") from error
    return exporter, provider


async def _close(provider: TracerProvider, seconds: float) -> None:
    """Send what is left for at most *seconds*; what is being sent then ends with the process."""
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def close() -> None:
        provider.shutdown()
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(closed.set)

    # Not the loop's own threads: those are waited for.
    threading.Thread(target=close, name="spans-closing", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            await closed.wait()
    except TimeoutError:
        _log.warning("spans_abandoned", seconds=seconds)
