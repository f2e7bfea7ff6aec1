"""More callers than the engine can answer: each is answered, told to come back, or too late."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.acceptance.conftest import Start
from tests.acceptance.test_clients import serve

CALLERS = 50
PING_SECONDS = 2.0
"""SageMaker's limit."""
KEPT_BYTES = 64 * 2**20
QUESTIONS = {
    name: {"type": "choice", "instructions": f"{name}?", "criteria": dict.fromkeys("abcd")}
    for name in ("one", "two", "three")
}


class Callers:
    """Fifty callers who know no patience."""

    def __init__(self, url: str, session: aiohttp.ClientSession, seconds: float) -> None:
        self._url = url
        self._session = session
        self._until = time.monotonic() + seconds
        self._number = 0
        self.statuses: Counter[int] = Counter()
        self.left = 0

    def _is_over(self) -> bool:
        return time.monotonic() > self._until

    async def call(self, *, patience_seconds: float) -> None:
        """Ask again and again, each time about another state."""
        while not self._is_over():
            self._number += 1
            body = {"state": f"{self._number} " + "please help " * 60, "questions": QUESTIONS}
            timeout = aiohttp.ClientTimeout(patience_seconds)
            try:
                async with self._session.post(
                    f"{self._url}/v1/systemone", json=body, timeout=timeout
                ) as response:
                    await response.read()
            except TimeoutError:
                self.left += 1
                continue
            self.statuses[response.status] += 1
            if response.status == 503:
                assert int(response.headers["Retry-After"]) >= 1
                await asyncio.sleep(0.05)  # callers who do not wait as they were told

    async def ping(self) -> None:
        """Ask for health all the while, as SageMaker does."""
        timeout = aiohttp.ClientTimeout(PING_SECONDS)
        while not self._is_over():
            async with self._session.get(f"{self._url}/ping", timeout=timeout) as response:
                assert 200 == response.status
            await asyncio.sleep(0.1)


async def overload(url: str, seconds: float) -> Callers:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        callers = Callers(url, session, seconds)
        async with asyncio.TaskGroup() as group:
            group.create_task(callers.ping())
            for number in range(CALLERS):
                # Every tenth hangs up at once, the others wait longer than the worker lets them.
                patience = 0.05 if number % 10 == 0 else 60.0
                group.create_task(callers.call(patience_seconds=patience))
    return callers


@pytest.mark.parametrize(
    "seconds",
    [1.0, pytest.param(60.0, marks=[pytest.mark.slow, pytest.mark.timeout(200)])],
)
async def test_overload(start: Start, tiny_model: Path, seconds: float) -> None:
    """200, 503 with Retry-After or 504, nobody hangs, ``/ping`` is good, and memory comes back."""
    worker, url = serve(
        start, tiny_model,
        "--contexts", "1", "--threads", "1", "--parked-mebibytes", "8",
        "--max-waiting-tokens", "20000", "--request-seconds", "5", "--max-callers", "40",
    )  # fmt: skip
    process = psutil.Process(worker.process.pid)
    await overload(url, 1.0)  # what is made once is there now
    before_bytes = process.memory_info().rss
    callers = await overload(url, seconds)
    grown_bytes = process.memory_info().rss - before_bytes
    code = worker.stop()

    assert {200, 503} <= set(callers.statuses) <= {200, 503, 504}
    assert callers.left > 0
    assert grown_bytes < KEPT_BYTES
    assert 0 == code
