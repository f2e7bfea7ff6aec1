"""The sidecar's routes, and what those answer that ask no question."""

from typing import Any

from aiohttp import web

from worker import metrics
from worker.decision.outcome import Provenance
from worker.errors import NotReady
from worker.lifecycle import Lifecycle, Phase
from worker.sidecar.admission import Admission
from worker.sidecar.exchange import Exchange
from worker.sidecar.formats import SYSTEM_ONE, UNDECIDED
from worker.sidecar.middleware import REQUEST_ID, SYSTEM_ONE_PATH
from worker.sidecar.openapi import document
from worker.sidecar.refusal import refusal_of
from worker.troubles import last_troubles

_MIB = 2**20
_MOST_TRANSFORM_MIB = 100  # of all concurrent transforms together, as SageMaker demands


class Routes:
    """Every route.

    Args:
        lifecycle: whose phase the probes tell.
        admission: knows the evaluator, when there is one.
        exchange: answers requests for decisions.
        stall_seconds: without progress for so long, the engine counts as broken.
        max_body_bytes: for SageMaker to know.

    Attributes:
        contexts: how many requests are worth sending at once.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        admission: Admission,
        exchange: Exchange,
        *,
        stall_seconds: float,
        max_body_bytes: int,
    ) -> None:
        self._lifecycle = lifecycle
        self._admission = admission
        self._exchange = exchange
        self._stall_seconds = stall_seconds
        self._max_body_bytes = max_body_bytes
        self.contexts = 1

    def add_to(self, application: web.Application) -> None:
        """Register the routes."""
        router = application.router
        router.add_get("/ping", self.ping)
        router.add_get("/health", self.health)
        router.add_get("/metrics", self.metrics)
        router.add_get("/v1/models", self.models)
        router.add_get("/execution-parameters", self.execution_parameters)
        router.add_get("/openapi.json", self.openapi)
        router.add_post("/invocations", self.invocations, expect_handler=_receive_later)
        router.add_post(SYSTEM_ONE_PATH, self.systemone, expect_handler=_receive_later)

    async def ping(self, _: web.Request) -> web.Response:
        """Say whether answers can be had: 200 while ready, however busy; else 503."""
        status = "stalled" if self._is_stalled() else self._lifecycle.phase.value
        return web.json_response({"status": status}, status=self._probe_status())

    async def health(self, _: web.Request) -> web.Response:
        """Say where the process is, and how old its last poll and its last progress are."""
        evaluator = self._admission.evaluator
        engine = None
        if evaluator is not None:
            engine = {
                "waiting_tokens": evaluator.engine.waiting_tokens,
                "stalled_seconds": round(evaluator.engine.stalled_seconds(), 3),
            }
        body = {
            "phase": self._lifecycle.phase.value,
            "requests_in_progress": self._admission.in_progress,
            "last_successful_poll_timestamp_seconds": metrics.last_poll(),
            "engine": engine,
            "last_troubles": last_troubles(),
        }
        return web.json_response(body, status=self._probe_status())

    async def metrics(self, _: web.Request) -> web.Response:
        """Return all metrics in Prometheus' text format."""
        return web.Response(
            body=metrics.exposition(), headers={"Content-Type": metrics.CONTENT_TYPE}
        )

    async def models(self, _: web.Request) -> web.Response:
        """Name the model, for System One's clients and for those of OpenAI's list."""
        try:
            provenance = self._admission.ready().provenance
        except NotReady as error:
            status, body = UNDECIDED.error(refusal := refusal_of(error))
            return web.json_response(body, status=status, headers=refusal.headers)
        return web.json_response(model_list(provenance))

    async def execution_parameters(self, _: web.Request) -> web.Response:
        """Tell SageMaker's batch transform what to send."""
        payload = max(1, min(_MOST_TRANSFORM_MIB, self._max_body_bytes // _MIB))
        return web.json_response(
            {
                "MaxConcurrentTransforms": max(
                    1, min(self.contexts, _MOST_TRANSFORM_MIB // payload)
                ),
                "BatchStrategy": "MULTI_RECORD",
                "MaxPayloadInMB": payload,
            }
        )

    async def openapi(self, _: web.Request) -> web.Response:
        """Describe the routes."""
        return web.json_response(document())

    async def invocations(self, request: web.Request) -> web.Response:
        """Answer a request in any of the formats."""
        return await self._exchange.answer(request, request[REQUEST_ID])

    async def systemone(self, request: web.Request) -> web.Response:
        """Answer a System One request."""
        return await self._exchange.answer(request, request[REQUEST_ID], SYSTEM_ONE)

    def _probe_status(self) -> int:
        is_ready = self._admission.evaluator is not None and self._lifecycle.phase is Phase.READY
        return 200 if is_ready and not self._is_stalled() else 503

    def _is_stalled(self) -> bool:
        evaluator = self._admission.evaluator
        return evaluator is not None and evaluator.engine.stalled_seconds() > self._stall_seconds


def model_list(provenance: Provenance) -> dict[str, Any]:
    """Return the one model as both lists; nothing is known of when it was made."""
    model = provenance.model
    return {
        "models": [
            {
                "name": model.name,
                "description": f"{model.architecture} {model.quantization}",
                "release_date": "",
            }
        ],
        "object": "list",
        "data": [{"id": model.name, "object": "model", "created": 0, "owned_by": "local"}],
    }


async def _receive_later(_: web.Request) -> None:
    """Let a caller who expects to be asked for the body wait: whoever admits it asks."""
