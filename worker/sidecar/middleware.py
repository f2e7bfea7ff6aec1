"""What every route shares: keys, a request id, errors in our own shape, counting."""

import re
import uuid

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from worker import metrics
from worker.lifecycle import Lifecycle, Phase
from worker.sidecar.formats import SYSTEM_ONE, UNDECIDED
from worker.sidecar.keys import Keys
from worker.sidecar.refusal import Refused, refusal_of

REQUEST_ID_HEADER = "x-typesafe-request-id"
REQUEST_ID = web.RequestKey("request_id", str)
ATTRIBUTES_HEADER = "X-Amzn-SageMaker-Custom-Attributes"
SERVER = "decision-worker"
"""What the Server header says; aiohttp would name itself, and Python's version."""

SYSTEM_ONE_PATH = "/v1/systemone"

_OPEN = frozenset(("/ping", "/metrics"))
_ATTRIBUTES = re.compile("[ -~]{1,1024}")


def make_middleware(lifecycle: Lifecycle, keys: Keys | None, *, guard_probes: bool) -> Middleware:
    """Return the one middleware.

    Args:
        lifecycle: while it drains, each answer is its connection's last.
        keys: which callers must have one of; None lets everybody in.
        guard_probes: whether ``/ping`` and ``/metrics`` need a key as well.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        # A path that is no route counts as one of its own: callers choose those.
        route = resource.canonical if resource is not None else "other"
        request[REQUEST_ID] = str(uuid.uuid4())
        try:
            if keys is not None and (guard_probes or route not in _OPEN):
                _check_key(keys, request)
            response = await handler(request)
        except Refused as refused:
            response = _refuse(refused, request)
        except web.HTTPMethodNotAllowed as error:
            message = f"this path takes {' and '.join(sorted(error.allowed_methods))}"
            allow = {"Allow": error.headers["Allow"]}
            response = _refuse(Refused(405, "method_not_allowed", message, allow), request)
        except web.HTTPNotFound:
            response = _refuse(Refused(404, "not_found_error", "there is no such path"), request)
        response.headers[REQUEST_ID_HEADER] = request[REQUEST_ID]
        response.headers["Server"] = SERVER
        attributes = request.headers.get(ATTRIBUTES_HEADER, "")
        if route == "/invocations" and _ATTRIBUTES.fullmatch(attributes):
            response.headers[ATTRIBUTES_HEADER] = attributes
        # After 408 the rest of the body may come, when nobody waits for it any more.
        if lifecycle.phase not in (Phase.STARTING, Phase.READY) or response.status == 408:
            response.force_close()
        metrics.HTTP_REQUESTS.labels(route, response.status).inc()
        return response

    return middleware


def _check_key(keys: Keys, request: web.Request) -> None:
    if keys.admit(request.headers.get("Authorization")):
        return
    raise Refused(
        401,
        "authentication_error",
        "a key is needed, as Authorization: Bearer",
        {"WWW-Authenticate": "Bearer"},
    )


def _refuse(refused: Refused, request: web.Request) -> web.Response:
    refusal = refusal_of(refused)
    metrics.HTTP_REFUSED.labels(refusal.kind).inc()
    wording = SYSTEM_ONE if request.path == SYSTEM_ONE_PATH else UNDECIDED
    status, body = wording.error(refusal)
    return web.json_response(body, status=status, headers=refusal.headers)
