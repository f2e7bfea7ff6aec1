"""What retrying clients see when more of them come than the worker can answer.

The worker is a process of its own. Its capacity is measured first, with as many callers as keep it
busy. Then, for each load, callers arrive at random at that multiple of the capacity and keep to the
documented policy: they send 408, 503 and 504 again after Retry-After or a backoff with full
jitter, at most five times.
"""

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from worker.engine.cores import usable_cores

LOADS = (0.5, 1.0, 2.0, 4.0)
ATTEMPTS = 5
BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 20.0
RETRYABLE = (408, 503, 504)
STATE_WORDS = 120
QUESTIONS = {
    "team": {"type": "choice", "criteria": {"billing": "money", "tech": None, "none": None}},
    "refund": {"type": "noul", "instructions": "Is money wanted back?"},
}


@dataclass
class Seen:
    """What the callers of one load saw.

    Attributes:
        load: multiple of the capacity.
        callers: how many came.
        statuses: of all attempts.
        seconds: from a caller's first attempt to its answer.
        gave_up: callers without an answer.
    """

    load: float
    callers: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    gave_up: int = 0

    @property
    def attempts(self) -> int:
        return sum(self.statuses.values())

    def figures(self) -> dict[str, Any]:
        refused = sum(self.statuses[status] for status in RETRYABLE)
        cuts = statistics.quantiles(self.seconds, n=100) if len(self.seconds) > 1 else [0.0] * 99
        return {
            "load": self.load,
            "callers": self.callers,
            "answered": len(self.seconds),
            "gave_up": self.gave_up,
            "attempts_each": self.attempts / max(1, self.callers),
            "refused_share": refused / max(1, self.attempts),
            "too_late": self.statuses[504],
            "p50_seconds": cuts[49],
            "p95_seconds": cuts[94],
            "p99_seconds": cuts[98],
        }


class Client:
    """Asks as the documented policy says.

    Args:
        session: shared by all callers.
        url: of the worker.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._number = 0
        self._random = random.Random(7)

    async def once(self) -> tuple[int, float]:
        """Ask about a state of its own; return the status, and when to come back."""
        self._number += 1
        body = {"state": f"{self._number}" + " word" * STATE_WORDS, "questions": QUESTIONS}
        async with self._session.post(f"{self._url}/v1/systemone", json=body) as response:
            await response.read()
            return response.status, float(response.headers.get("Retry-After", 0))

    async def ask(self, seen: Seen) -> None:
        """Ask until there is an answer, or no attempt is left."""
        started_at = time.monotonic()
        seen.callers += 1
        for attempt in range(ATTEMPTS):
            status, retry_after = await self.once()
            seen.statuses[status] += 1
            if status == 200:
                seen.seconds.append(time.monotonic() - started_at)
                return
            if status not in RETRYABLE or attempt == ATTEMPTS - 1:
                break
            backoff = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2**attempt)
            # On top of what was asked for, so that callers do not come back all at once.
            await asyncio.sleep(retry_after + self._random.uniform(0, backoff))
        seen.gave_up += 1

    async def capacity(self, seconds: float) -> float:
        """Return the requests that are answered in a second when the worker is kept busy."""
        until = time.monotonic() + seconds
        answered = 0

        async def one() -> None:
            nonlocal answered
            while time.monotonic() < until:
                status, _ = await self.once()
                answered += status == 200

        await asyncio.gather(*(one() for _ in range(2 * usable_cores())))
        return answered / seconds

    async def load(self, load: float, per_second: float, seconds: float) -> Seen:
        """Let callers arrive at random for *seconds*; wait for the last one."""
        seen = Seen(load)
        async with asyncio.TaskGroup() as callers:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                callers.create_task(self.ask(seen))
                await asyncio.sleep(self._random.expovariate(load * per_second))
        return seen


@contextmanager
def serving(model: str, request_seconds: float) -> Iterator[str]:
    """Start a worker; return its root."""
    command = [
        sys.executable, "-m", "worker", "serve", "--model", model, "--port", "0",
        "--request-seconds", str(request_seconds), "--log-format", "json",
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WORKER_")}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        port = None
        for line in process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            port = event.get("port", port)
            if event.get("event") == "ready":
                break
        else:
            raise click.ClickException("the worker did not start")
        # What it writes from now on must go somewhere, or it would wait.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        process.wait()
        drain.wait()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


async def measure(url: str, seconds: float, console: Console) -> tuple[float, list[Seen]]:
    """Measure the capacity, then every load."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        client = Client(session, url)
        await client.capacity(3)  # the worker measures its speed, too
        capacity = await client.capacity(seconds / 2)
        seen = []
        for load in LOADS:
            console.print(f"{load:g} × {capacity:.2f} requests a second")
            seen.append(await client.load(load, capacity, seconds))
        return capacity, seen


def table(capacity: float, seen: list[Seen]) -> Table:
    """Show what the callers saw, by load."""
    result = Table(
        title=f"Retrying clients; capacity {capacity:.2f} requests a second", title_justify="left"
    )
    columns = ("load", "came", "answered", "gave up", "tries", "refused", "504")
    for column in (*columns, "p50", "p95", "p99"):
        result.add_column(column, justify="right", no_wrap=True)
    result.caption = (
        "tries: of each caller; refused: of all tries; p50 to p99: seconds to an answer"
    )
    for one in seen:
        f = one.figures()
        result.add_row(
            f"{f['load']:g} ×",
            str(f["callers"]),
            str(f["answered"]),
            str(f["gave_up"]),
            f"{f['attempts_each']:.2f}",
            f"{f['refused_share']:.0%}",
            str(f["too_late"]),
            f"{f['p50_seconds']:.2f}",
            f"{f['p95_seconds']:.2f}",
            f"{f['p99_seconds']:.2f}",
        )
    return result


@click.command()
@click.option("--model", default="sample", show_default=True, help="GGUF file")
@click.option("--seconds", default=30.0, show_default=True, help="of each load")
@click.option("--request-seconds", default=5.0, show_default=True, help="the worker's deadline")
@click.option("--json", "as_json", is_flag=True, help="print the figures as JSON")
def main(model: str, seconds: float, request_seconds: float, as_json: bool) -> None:
    """Show refusals, retries and waiting at half, once, twice and four times the capacity."""
    console = Console(stderr=True)
    with serving(str(Path(model)), request_seconds) as url:
        capacity, seen = asyncio.run(measure(url, seconds, console))
    if as_json:
        figures = {"capacity": capacity, "loads": [one.figures() for one in seen]}
        json.dump(figures, sys.stdout, indent=2)
    else:
        Console().print(table(capacity, seen))


if __name__ == "__main__":
    main()
