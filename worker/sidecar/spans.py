"""The sidecar's spans, named as OpenTelemetry's HTTP conventions do.

Source: https://opentelemetry.io/docs/specs/semconv/http/http-spans/ (server). Only what is posted
to a route is worth one: probes and scrapes come every few seconds.
"""

from collections.abc import Mapping

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from worker.sidecar.middleware import REQUEST_ID_HEADER
from worker.trace import NAMES, Trace, read_trace
from worker.tracing import Kind, Tracer

_X_RAY = "X-Amzn-Trace-Id"


def make_tracing(tracer: Tracer) -> Middleware:
    """Return the middleware that goes around the other, and sees every answer.

    Args:
        tracer: keeps the spans; whatever it keeps, log lines tell the trace that a caller told.
    """

    @web.middleware
    async def tracing(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if request.method != hdrs.METH_POST or resource is None:
            return await handler(request)
        route = resource.canonical  # as it was registered, which is no caller's text
        told = _told(request.headers)
        attributes = {
            "http.request.method": hdrs.METH_POST,
            "http.route": route,
            "url.path": route,
            "url.scheme": "http",
        }
        with tracer.span(f"POST {route}", Kind.SERVER, attributes, parent=told) as span:
            known = {"trace_id": (span.trace or told).trace_id}
            with structlog.contextvars.bound_contextvars(
                **{name: value for name, value in known.items() if value}
            ):
                response = await handler(request)
            span.set(
                {
                    "http.response.status_code": response.status,
                    "decision.request_id": response.headers[REQUEST_ID_HEADER],
                }
            )
            if response.status >= 400:
                span.fail(str(response.status), is_fault=response.status >= 500)
        return response

    return tracing


def _told(headers: Mapping[str, str]) -> Trace:
    """Return the trace that a request belongs to: by W3C's headers, else by X-Ray's."""
    return read_trace({name: headers.get(name, "") for name in NAMES}, headers.get(_X_RAY, ""))
