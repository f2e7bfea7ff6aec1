"""``POST /v1/feedback``: what a person decided about an answer."""

import structlog
from aiohttp import web
from pydantic import BaseModel

from worker import metrics
from worker.decision.feedback import parse_feedback
from worker.errors import WorkerError
from worker.overrides import Result
from worker.sidecar.admission import Admission
from worker.sidecar.body import receive_body
from worker.sidecar.formats import SYSTEM_ONE
from worker.sidecar.media import Media, media_of
from worker.sidecar.refusal import refusal_of

_MAX_BYTES = 1 << 16

_log = structlog.get_logger()


class FeedbackTaken(BaseModel):
    """What became of the answer: upheld, overturned, unknown here, or told before."""

    result: Result


class FeedbackRoute:
    """The route.

    Args:
        admission: knows the evaluator, when there is one.
        body_seconds: the longest a body may take to arrive.
    """

    def __init__(self, admission: Admission, body_seconds: float) -> None:
        self._admission = admission
        self._body_seconds = body_seconds

    async def answer(self, request: web.Request) -> web.Response:
        """Count one message."""
        try:
            evaluator = self._admission.ready()
            media_of(request.headers.get("Content-Type"), allowed=(Media.JSON,))
            with self._admission.work():
                body = await receive_body(request, max_bytes=_MAX_BYTES, seconds=self._body_seconds)
                feedback = parse_feedback(body)
                result = evaluator.overrides.take(feedback)
        except WorkerError as error:
            refusal = refusal_of(error)
            metrics.HTTP_REFUSED.labels(refusal.kind).inc()
            status, told = SYSTEM_ONE.error(refusal)
            return web.json_response(told, status=status, headers=refusal.headers)
        _log.info("feedback_counted", ticket_id=feedback.ticket_id, result=result)
        return web.json_response(FeedbackTaken(result=result).model_dump())
