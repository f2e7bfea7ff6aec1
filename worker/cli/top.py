"""``decision-worker top``: watch a running worker."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import click
from rich.console import Console
from rich.live import Live

from worker.errors import UsageError
from worker.watch.figures import Figures, Interval, read_figures
from worker.watch.screen import screen

_ANSWERS_WITHIN_SECONDS = 5.0


@click.command()
@click.option(
    "--url", default="http://127.0.0.1:8080", show_default=True, help="where the worker listens"
)
@click.option("--every", "seconds", default=2.0, show_default=True, help="seconds between looks")
@click.option("--once", is_flag=True, help="show one interval and exit")
@click.option(
    "--api-key-file", type=click.Path(path_type=Path), help="holds a key, where one is needed"
)
def top(url: str, seconds: float, once: bool, api_key_file: Path | None) -> None:
    """Watch a running worker: throughput, backlog, lanes, tokens, dispositions, last troubles.

    Reads /metrics and /health of a worker that was started with --port or --metrics-port. Ctrl-C
    ends it; the worker does not notice.
    """
    headers = {"Authorization": f"Bearer {_key(api_key_file)}"} if api_key_file else {}
    console = Console()
    try:
        asyncio.run(_watch(url.rstrip("/"), headers, seconds, console, once=once))
    except KeyboardInterrupt:
        return


async def _watch(
    url: str, headers: dict[str, str], seconds: float, console: Console, *, once: bool
) -> None:
    timeout = aiohttp.ClientTimeout(_ANSWERS_WITHIN_SECONDS)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        intervals = _intervals(session, url, seconds)
        first = await anext(intervals)
        if once:
            console.print(screen(first, url))
            return
        with Live(screen(first, url), console=console, screen=True, auto_refresh=False) as live:
            async for interval in intervals:
                live.update(screen(interval, url), refresh=True)


async def _intervals(
    session: aiohttp.ClientSession, url: str, seconds: float
) -> AsyncIterator[Interval]:
    before = await _look(session, url)
    while True:
        await asyncio.sleep(seconds)
        now = await _look(session, url)
        yield Interval(before, now)
        before = now


async def _look(session: aiohttp.ClientSession, url: str) -> Figures:
    """Ask a worker for its figures.

    Raises:
        UsageError: nobody answers there, or not as a worker does.
    """
    try:
        async with session.get(f"{url}/metrics") as answer:
            _check(answer, url)
            exposition = await answer.text()
        async with session.get(f"{url}/health") as answer:
            # 503 while it starts, drains or is stuck: that is what one wants to see.
            if answer.status != 503:
                _check(answer, url)
            health: dict[str, Any] = await answer.json()
        return read_figures(exposition, health, time.monotonic())
    except (aiohttp.ClientError, TimeoutError, ValueError, json.JSONDecodeError) as error:
        reason = type(error).__name__ if not str(error) else str(error)
        raise UsageError(f"no worker answers at {url}: {reason}") from error


def _check(answer: aiohttp.ClientResponse, url: str) -> None:
    if answer.status == 401:
        raise UsageError(f"{url} wants a key: --api-key-file names a file that holds one")
    answer.raise_for_status()


def _key(path: Path) -> str:
    try:
        return path.read_text("utf-8").split("\n", 1)[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
