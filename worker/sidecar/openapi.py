"""The OpenAPI document, made of the models that validate requests and word answers."""

import functools
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from worker import __version__
from worker.decision.feedback import Feedback
from worker.decision.ticket import Ticket
from worker.sidecar.feedback import FeedbackTaken
from worker.sidecar.media import Media
from worker.sidecar.semif import SemifError, SemifRequest, SemifShared, SemifSingle
from worker.sidecar.systemone import ErrorBody, InvalidBody, SystemOneResponse

_JSON, _LINES = Media.JSON.value[0], Media.LINES.value[0]
_REFERENCE = "#/components/schemas/{model}"
_REQUESTS: tuple[type[BaseModel], ...] = (Ticket, SemifRequest, Feedback)
_RESPONSES: tuple[type[BaseModel], ...] = (
    SystemOneResponse,
    FeedbackTaken,
    SemifSingle,
    SemifShared,
    ErrorBody,
    InvalidBody,
    SemifError,
)

_WHY = {
    400: "an unknown model, a header or an encoding that cannot be read",
    401: "no key, or a wrong one",
    406: "Accept rules out what there is",
    408: "the body did not arrive in time; send it again",
    413: "the body, its prompts or its lines are over a limit, which the message names",
    415: "a media type or an encoding that is not taken",
    422: "the body is not as it must be; the place is named",
    500: "an unexpected fault",
    503: "starting, draining or overloaded; come back after Retry-After",
    504: "the deadline passed",
}


@functools.cache
def document() -> dict[str, Any]:
    """Return the document (OpenAPI 3.1)."""
    _, schemas = models_json_schema(
        [
            *((model, "validation") for model in _REQUESTS),
            *((model, "serialization") for model in _RESPONSES),
        ],
        ref_template=_REFERENCE,
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "decision-worker",
            "version": __version__,
            "description": "Typed questions about a text, answered with exact probabilities.",
        },
        "paths": {
            "/ping": _get("Can answers be had?", 200, 503),
            "/health": _get("Where is the process?", 200, 401, 503),
            "/metrics": _get("Prometheus' text format", 200, content="text/plain"),
            "/v1/models": _get("Which model answers?", 200, 401, 503),
            "/execution-parameters": _get("For SageMaker's batch transform", 200, 401),
            "/openapi.json": _get("This document", 200, 401),
            "/v1/systemone": {"post": _systemone()},
            "/v1/feedback": {"post": _feedback()},
            "/invocations": {"post": _invocations()},
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _get(summary: str, *statuses: int, content: str = _JSON) -> dict[str, Any]:
    responses = {
        str(status): {"description": _WHY.get(status, "yes"), "content": {content: {}}}
        for status in statuses
    }
    return {"get": {"summary": summary, "responses": responses}}


def _systemone() -> dict[str, Any]:
    return {
        "summary": "Answer a System One request",
        "requestBody": _body({_JSON: _schema(Ticket)}),
        "responses": {
            "200": _answer({_JSON: _schema(SystemOneResponse)}),
            **{str(status): _error(status, ErrorBody) for status in _WHY if status != 422},
            "422": _error(422, InvalidBody),
        },
    }


def _feedback() -> dict[str, Any]:
    return {
        "summary": "Tell what a person decided about an answer",
        "requestBody": _body({_JSON: _schema(Feedback)}),
        "responses": {
            "200": _answer({_JSON: _schema(FeedbackTaken)}),
            **{str(status): _error(status, ErrorBody) for status in (400, 401, 408, 413, 415, 503)},
            "422": _error(422, InvalidBody),
        },
    }


def _invocations() -> dict[str, Any]:
    """Describe the route of all formats: an error is worded as the request was, as far as known."""
    lines = {"type": "string", "description": "a request or an answer on each line"}
    return {
        "summary": "Answer a request of System One or of the SemIf sample, or lines of them",
        "requestBody": _body({_JSON: _schema(Ticket, SemifRequest), _LINES: lines}),
        "responses": {
            "200": _answer(
                {_JSON: _schema(SystemOneResponse, SemifSingle, SemifShared), _LINES: lines}
            ),
            **{
                str(status): _error(status, InvalidBody if status == 422 else ErrorBody, SemifError)
                for status in _WHY
            },
        },
    }


def _body(content: dict[str, Any]) -> dict[str, Any]:
    schemas = {name: {"schema": schema} for name, schema in content.items()}
    return {"required": True, "content": schemas}


def _answer(content: dict[str, Any]) -> dict[str, Any]:
    schemas = {name: {"schema": schema} for name, schema in content.items()}
    return {"description": "the answers", "content": schemas}


def _error(status: int, *models: type[BaseModel]) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": _WHY[status],
        "content": {_JSON: {"schema": _schema(*models)}},
    }
    if status == 503:
        response["headers"] = {
            "Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}
        }
    return response


def _schema(*models: type[BaseModel]) -> dict[str, Any]:
    references = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    return references[0] if len(references) == 1 else {"anyOf": references}
