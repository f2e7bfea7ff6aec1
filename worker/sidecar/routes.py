"""The sidecar's routes, and what those answer that ask no question."""

from typing import Any

from aiohttp import web

from worker.decision.outcome import Provenance
from worker.errors import NotReady
from worker.sidecar.admission import Admission
from worker.sidecar.exchange import Exchange
from worker.sidecar.feedback import FeedbackRoute
from worker.sidecar.formats import SYSTEM_ONE, UNDECIDED
from worker.sidecar.middleware import REQUEST_ID, SYSTEM_ONE_PATH
from worker.sidecar.openapi import document
from worker.sidecar.probes import Probes
from worker.sidecar.refusal import refusal_of

_MIB = 2**20
_MOST_TRANSFORM_MIB = 100  # of all concurrent transforms together, as SageMaker demands


class Routes:
    """Every route.

    Args:
        probes: what monitors ask.
        admission: knows the evaluator, when there is one.
        exchange: answers requests for decisions.
        feedback: takes what people decided.
        max_body_bytes: for SageMaker to know.

    Attributes:
        contexts: how many requests are worth sending at once.
    """

    def __init__(
        self,
        probes: Probes,
        admission: Admission,
        exchange: Exchange,
        feedback: FeedbackRoute,
        *,
        max_body_bytes: int,
    ) -> None:
        self._probes = probes
        self._admission = admission
        self._exchange = exchange
        self._feedback = feedback
        self._max_body_bytes = max_body_bytes
        self.contexts = 1

    def add_to(self, application: web.Application) -> None:
        """Register the routes."""
        self._probes.add_to(application)
        router = application.router
        router.add_get("/v1/models", self.models)
        router.add_get("/execution-parameters", self.execution_parameters)
        router.add_get("/openapi.json", self.openapi)
        router.add_post("/v1/feedback", self._feedback.answer, expect_handler=_receive_later)
        router.add_post("/invocations", self.invocations, expect_handler=_receive_later)
        router.add_post(SYSTEM_ONE_PATH, self.systemone, expect_handler=_receive_later)

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
