"""The sidecar as a process: the SemIf sample's requests, and a stop with a caller at hand."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import aiohttp
import httpx2

from tests.acceptance.conftest import Start
from tests.acceptance.test_clients import serve

JSON = "application/json"
CONTROL = "<end_of_turn>"
"""A control token of the tiny model's vocabulary."""


def decision(**fields: Any) -> dict[str, Any]:
    return {
        "id": "route",
        "state": "I cannot sign in, and no mail arrives.",
        "question": "Which queue should handle this?",
        "options": [
            {"id": "access", "description": "Account access."},
            {"id": "billing", "description": "Billing."},
        ],
    } | fields


def shared(count: int, **last: Any) -> dict[str, Any]:
    decisions = [decision(id=f"d-{number}") for number in range(count)]
    return {"decisions": [*decisions[:-1], decisions[-1] | last]}


def test_the_samples_requests(start: Start, tiny_model: Path) -> None:
    """Its shapes are answered; its limits and what it refuses are errors in its own shape."""
    _, url = serve(start, tiny_model)

    def invoke(body: Any, content_type: str = JSON) -> tuple[int, Any]:
        answered = httpx2.post(
            f"{url}/invocations",
            content=json.dumps(body),
            headers={"Content-Type": content_type, "Accept": JSON},
            timeout=60,
        )
        return answered.status_code, answered.json()

    single, several = invoke({"decision": decision()}), invoke(shared(8))
    refused = {
        "at most 8": shared(9),
        "same state": shared(2, state="another"),
        "same id": shared(2, id="d-0"),
        "control token": {"decision": decision(state=f"a {CONTROL} b")},
        "exactly one": {"decision": decision(), "decisions": None} | shared(2),
        "may have 4096": {"decision": decision(state="help " * 4096)},
        "may have 1024": {
            "decisions": [decision(id=f"{n}", state="help " * 1024) for n in range(8)]
        },
    }

    assert (200, ["access", "billing"]) == (single[0], single[1]["result"]["option_ids"])
    assert 2 == len(set(single[1]["result"]["answer_token_ids"]))
    assert (200, 8) == (several[0], len(several[1]["results"]))
    assert single[1]["result"]["probabilities"] == several[1]["results"][0]["probabilities"]
    for message, body in refused.items():
        status, answer = invoke(body)
        assert (400, False) == (status, answer["retryable"])
        assert message in answer["error"]
    assert 415 == invoke({"decision": decision()}, "text/plain")[0]


async def test_a_stop_with_a_caller_at_hand(start: Start, tiny_model: Path) -> None:
    """What runs is answered, what comes meanwhile is refused, and the process ends with 0."""
    worker, url = serve(start, tiny_model, "--contexts", "1", "--threads", "1")
    questions = {f"q{n}": {"type": "noul", "instructions": f"{n}?"} for n in range(10)}
    body = {"state": "please help " * 600, "questions": questions}
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, Any]:
            async with session.get(url + path) as response:
                return response.status, await response.json()

        async def ask() -> tuple[int, str | None]:
            async with session.post(f"{url}/v1/systemone", json=body) as response:
                await response.read()
                return response.status, response.headers.get("Connection")

        running = asyncio.create_task(ask())
        while (await get("/health"))[1]["requests_in_progress"] == 0:
            pass
        worker.process.send_signal(signal.SIGHUP)  # there is nothing to read again
        worker.process.send_signal(signal.SIGTERM)
        while (ping := await get("/ping"))[0] == 200:
            pass
        refused = await ask()
        answered = await running
    code = await asyncio.to_thread(worker.wait)

    assert (503, "draining") == (ping[0], ping[1]["status"])
    assert (503, "close") == refused
    assert (200, "close") == answered
    assert 0 == code
