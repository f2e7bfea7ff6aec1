"""Native decision models are read as llama.cpp's own server reads them, to rounding."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.factories import make_provenance
from tests.integration.pools import open_pool
from tests.models import FLOAT_OPTIONS, Tiny, TinyModels
from tests.native import DECIDERS, STRESS, NativeServer, Requests, decider
from worker.brain import open_wording
from worker.decision.outcome import Outcome
from worker.decision.ticket import validate_ticket
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.settings import Settings

TOLERANCE: Final = 2e-4
"""In probability, on float models."""

BOTH: Final = [(kind, template) for kind in DECIDERS for template in ("own",)]


class Pair:
    """One decision model, read by the worker and by llama.cpp's server."""

    def __init__(self, evaluator: Evaluator, server: NativeServer) -> None:
        self._evaluator = evaluator
        self._server = server

    async def ours(self, request: dict[str, Any]) -> Outcome:
        return await self._evaluator.evaluate(validate_ticket(request), Lane.BATCH)

    def native(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._server.answer(request)


@contextmanager
def open_pair(models: TinyModels, tiny: Tiny) -> Iterator[Pair]:
    model = models.load(tiny)
    with NativeServer(models.path(tiny)) as server, open_pool(model, options=FLOAT_OPTIONS) as pool:
        yield Pair(Evaluator(pool, open_wording(model, Settings()), make_provenance()), server)


async def compare(pair: Pair, requests: Requests, count: int) -> int:
    """Compare *count* requests; return how many were answered."""
    answered = 0
    for _ in range(count):
        request = requests.one()
        native = pair.native(request)
        assert "error" not in native, (native, request)
        outcome = (await pair.ours(request)).as_dict()
        assert native["usage"]["input_tokens"] == outcome["usage"]["input_tokens"], request
        assert list(native["answers"]) == list(outcome["answers"])
        for key, answer in native["answers"].items():
            assert_close(answer, outcome["answers"][key], request)
        answered += 1
    return answered


def assert_close(native: dict[str, Any], ours: dict[str, Any], request: dict[str, Any]) -> None:
    """Every field llama.cpp's server has; a near tie may choose otherwise."""
    assert native["type"] == ours["type"]
    # The server's JSON library makes floats of integers beyond 64 bits; ours stay what they are.
    assert list(native.get("legend", ())) == list(ours.get("legend", ()))
    for name in ("noul", "probabilities"):
        assert pytest.approx(native.get(name), abs=TOLERANCE) == ours.get(name), request
    # These are sums over up to ten levels, or scaled up by n/(n-1).
    for name in ("score", "confidence"):
        assert pytest.approx(native.get(name), abs=10 * TOLERANCE) == ours.get(name), request
    if "choice" in native:
        chosen = native["probabilities"][ours["choice"]]
        assert chosen >= max(native["probabilities"].values()) - TOLERANCE


@pytest.mark.parametrize(("kind", "template"), BOTH)
async def test_answers_equal_the_native_servers(
    tiny_models: TinyModels, kind: str, template: str
) -> None:
    """Probabilities, token counts and legends, on requests of every form."""
    tiny = decider(kind, STRESS if template == "stress" else None)
    with open_pair(tiny_models, tiny) as pair:
        assert 8 == await compare(pair, Requests(f"{kind} {template}"), 8)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "template"), BOTH)
async def test_many_answers_equal_the_native_servers(
    tiny_models: TinyModels, kind: str, template: str
) -> None:
    """The same on 400 requests in all."""
    tiny = decider(kind, STRESS if template == "stress" else None)
    with open_pair(tiny_models, tiny) as pair:
        assert 40 == await compare(pair, Requests(f"many {kind} {template}"), 40)
