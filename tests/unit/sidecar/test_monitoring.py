"""The port for monitors: the same answers as the sidecar's, without keys, and no others."""

import aiohttp
import pytest

from tests.factories import make_provenance, make_wording
from tests.fakes import FakeEngine
from worker.errors import UsageError
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.sidecar.monitoring import open_monitoring
from worker.sidecar.probes import Probes


async def test_what_monitors_ask() -> None:
    """Before there is a model, while there is one, and while it is stuck."""
    lifecycle = Lifecycle()
    probes = Probes(lifecycle, stall_seconds=30.0)
    engine = FakeEngine()
    async with (
        open_monitoring(lifecycle, probes, "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):

        async def status(path: str) -> int:
            async with client.get(path) as answer:
                return answer.status

        starting = [await status(path) for path in ("/ping", "/health", "/metrics")]
        probes.evaluator = Evaluator(engine, make_wording(), make_provenance())
        lifecycle.ready()
        ready = [await status(path) for path in ("/ping", "/health", "/metrics")]
        engine.stalled = 31.0
        stalled = [await status(path) for path in ("/ping", "/health", "/metrics")]
        async with client.get("/metrics") as answer:
            text, kind = await answer.text(), answer.headers["Content-Type"]

    assert ([503, 503, 200], [200, 200, 200], [503, 503, 200]) == (starting, ready, stalled)
    assert "decision_deliveries_in_hand" in text
    assert kind.startswith("text/plain; version=")


async def test_nothing_else_is_answered() -> None:
    """Who watches cannot ask for decisions, or for the model's name."""
    lifecycle = Lifecycle()
    probes = Probes(lifecycle, stall_seconds=30.0)
    async with (
        open_monitoring(lifecycle, probes, "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        statuses = []
        for path in ("/invocations", "/v1/systemone", "/v1/models", "/openapi.json"):
            async with client.post(path, data=b"{}") as answer:
                statuses.append(answer.status)

    assert [404] * 4 == statuses


async def test_a_port_that_is_taken() -> None:
    """Said at once, with the address."""
    lifecycle = Lifecycle()
    probes = Probes(lifecycle, stall_seconds=30.0)
    async with open_monitoring(lifecycle, probes, "127.0.0.1", 0) as port:
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with open_monitoring(lifecycle, probes, "127.0.0.1", port):
                pass
