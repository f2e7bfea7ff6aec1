"""The sidecar on loopback, over an engine that is a fake."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.factories import make_provenance, make_tree, make_wording
from tests.fakes import FakeEngine
from worker.decision.overflow import REJECT_LONG, Overflow
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.sidecar.keys import Keys
from worker.sidecar.server import Sidecar, SidecarOptions
from worker.tracing import NO_TRACER, Tracer

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/jsonlines"}
CONTROL = "<end>"
"""What the fake model's only control token is spelled like."""


@dataclass
class Answered:
    """One response."""

    status: int
    headers: Any
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)


@dataclass
class Bench:
    """A sidecar that listens, what stands behind it, and a client."""

    sidecar: Sidecar
    engine: FakeEngine
    lifecycle: Lifecycle
    client: aiohttp.ClientSession
    overflow: Overflow = REJECT_LONG

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sidecar.port}"

    async def get(self, path: str, **arguments: Any) -> Answered:
        return await self.ask("GET", path, **arguments)

    async def post(self, body: Any, path: str = "/invocations", **headers: str) -> Answered:
        """Post *body*: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", path, data=data, headers=JSON | headers)

    async def ask(self, method: str, path: str, **arguments: Any) -> Answered:
        async with self.client.request(method, self.url + path, **arguments) as response:
            return Answered(response.status, response.headers, await response.text())

    def answer(self) -> None:
        """Load the model, as it were."""
        evaluator = Evaluator(
            self.engine, make_wording(26), make_provenance(), overflow=self.overflow
        )
        self.sidecar.answer_with(evaluator, contexts=2, spells_control=lambda text: CONTROL in text)
        self.lifecycle.ready()


@asynccontextmanager
async def open_bench(
    *,
    keys: Keys | None = None,
    ready: bool = True,
    overflow: Overflow = REJECT_LONG,
    tracer: Tracer = NO_TRACER,
    **options: Any,
) -> AsyncIterator[Bench]:
    """Open a sidecar that answers, unless *ready* is false."""
    usual = {
        "max_body_bytes": 20_000,
        "body_seconds": 20.0,
        "request_seconds": 20.0,
        "max_callers": 16,
        "stall_seconds": 30.0,
    }
    lifecycle = Lifecycle()
    sidecar = Sidecar(lifecycle, SidecarOptions(**usual | options), keys, tracer)
    await sidecar.listen("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as client:
            bench = Bench(sidecar, FakeEngine(), lifecycle, client, overflow)
            if ready:
                bench.answer()
            yield bench
    finally:
        await sidecar.close()


def make_decision(**fields: Any) -> dict[str, Any]:
    """Return one decision as the SemIf sample asks for it."""
    decision = {
        "id": "route",
        "state": "I cannot sign in.",
        "question": "Which queue?",
        "options": [
            {"id": "access", "description": "Account access."},
            {"id": "billing", "description": "Billing."},
        ],
    }
    return decision | fields


def make_request(**fields: Any) -> dict[str, Any]:
    """Return a System One request."""
    return make_tree(**{"ticket_id": ...} | fields)
