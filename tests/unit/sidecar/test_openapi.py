"""The OpenAPI document: true of what is answered, whatever is asked."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.unit.sidecar.bench import Bench, make_decision, make_request, open_bench
from worker.decision.ticket import Ticket
from worker.sidecar.openapi import document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A sidecar on a loop in a thread of its own: what calls it here blocks."""
    benches: list[Bench] = []
    started, stop = threading.Event(), threading.Event()

    async def run() -> None:
        async with open_bench() as bench:
            benches.append(bench)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert started.wait(30)
    yield benches[0].url
    stop.set()
    thread.join()


def ask_at_random(url: str, path: str, method: str, examples: int) -> None:
    """Make requests from the document, right and wrong ones, and check every answer."""
    described = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operation = described[path][method]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy() | operation.as_strategy(GenerationMode.NEGATIVE))
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    ask()


OPERATIONS = [(path, method) for path, methods in document()["paths"].items() for method in methods]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_whatever_is_asked(url: str, path: str, method: str) -> None:
    """No 5xx, and nothing is answered that the document does not describe."""
    ask_at_random(url, path, method, 30 if method == "post" else 2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_whatever_is_asked_at_length(url: str, path: str, method: str) -> None:
    """The same, many times over."""
    ask_at_random(url, path, method, 3000 if method == "post" else 100)


@pytest.mark.parametrize(
    "body", [make_request(), {"decision": make_decision()}, {"decisions": [make_decision()]}]
)
async def test_answers_are_as_described(body: dict[str, Any]) -> None:
    """Good answers too, which requests made at random seldom get."""
    async with open_bench() as bench:
        answered = await bench.post(body)
        described = (await bench.get("/openapi.json")).body
    content = described["paths"]["/invocations"]["post"]["responses"]["200"]["content"]
    schema = {**content["application/json"]["schema"], "components": described["components"]}

    jsonschema.validate(answered.body, schema)


def test_requests_are_described_by_what_validates_them() -> None:
    """A limit that is changed in the model changes in the document."""
    schemas = document()["components"]["schemas"]
    questions = Ticket.model_json_schema()["properties"]["questions"]["anyOf"][0]

    assert (
        questions["maxProperties"]
        == (schemas["Ticket"]["properties"]["questions"]["anyOf"][0]["maxProperties"])
    )
