"""Spans as OpenTelemetry's SDK keeps them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from worker import __version__, metrics
from worker.trace import NAMES, Trace, read_trace
from worker.tracing import Attributes, Kind, Span, fail_with

_KINDS = {kind: SpanKind[kind.value] for kind in Kind}
_PROPAGATOR = TraceContextTextMapPropagator()


class OtelTracer:
    """Makes spans that OpenTelemetry keeps.

    Args:
        provider: the SDK's.
    """

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._tracer = provider.get_tracer("decision-worker", __version__)

    @contextmanager
    def span(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        parent: Trace | None = None,
        links: Sequence[Trace] = (),
        started_ns: int | None = None,
    ) -> Iterator[Span]:
        """Return a span that lasts while the body runs; see :class:`worker.tracing.Tracer`."""
        span = self._tracer.start_span(
            name,
            context=None if parent is None else _context(parent),
            kind=_KINDS[kind],
            attributes=attributes,
            links=_links(links, parent),
            start_time=started_ns,
        )
        ours = _OtelSpan(span)
        token = context.attach(trace.set_span_in_context(span))
        try:
            yield ours
        except BaseException as error:
            # Not the SDK's own way, which keeps what the exception says.
            fail_with(ours, error)
            raise
        finally:
            context.detach(token)
            span.end()
            if span.get_span_context().trace_flags.sampled:
                metrics.SPANS.inc()


class _OtelSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def trace(self) -> Trace:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(self._span))
        return read_trace(carrier)

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def fail(self, error_type: str, *, is_fault: bool = True) -> None:
        self._span.set_attribute("error.type", error_type)
        if is_fault:
            self._span.set_status(StatusCode.ERROR)


def _links(others: Sequence[Trace], parent: Trace | None) -> list[trace.Link]:
    found = [trace.get_current_span(_context(other)).get_span_context() for other in others]
    if parent is not None:  # what is around does not become the parent, so it becomes a link
        found.append(trace.get_current_span().get_span_context())
    return [trace.Link(one) for one in found if one.is_valid]


def _context(told: Trace) -> context.Context:
    """Return a context with nothing in it but the trace that was *told*, if any."""
    carrier = dict(zip(NAMES, (told.parent, told.state), strict=True))
    return _PROPAGATOR.extract(carrier, context.Context())
