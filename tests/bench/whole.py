"""A whole worker on an emulator, fed as fast as it finishes."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import click
import psutil

from tests.soak.place import CREDENTIALS, REGION, Place, open_place
from tests.soak.tickets import Kind, Sent
from worker.watch.figures import Figures, read_figures

AHEAD = 200
"""So many tickets wait on the queue: emulators become slow with thousands."""

_AT_ONCE = 10


@dataclass
class Whole:
    """A worker that runs.

    Attributes:
        place: where it receives and publishes.
        process: that it is.
        metrics_url: where it answers monitors.
        said: its last log lines.
    """

    place: Place
    process: asyncio.subprocess.Process
    metrics_url: str = ""
    said: list[str] = field(default_factory=list)

    def rss_bytes(self) -> int:
        """Return the memory that the process occupies."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    async def figures(self) -> Figures:
        """Return what the worker counts."""
        async with aiohttp.ClientSession() as client, client.get(self.metrics_url) as answer:
            return read_figures(await answer.text(), {}, 0.0)

    async def finish(self, bodies: Sequence[str]) -> AsyncIterator[datetime]:
        """Send *bodies* little by little; yield when each was finished.

        Raises:
            ClickException: one was not decided, or the worker ended.
        """
        waiting = iter([Sent(str(number), Kind.GOOD, body) for number, body in enumerate(bodies)])
        sent = await self._send(waiting, AHEAD)
        for finished in range(1, len(bodies) + 1):
            event = await self.event("delivery_finished")
            if event["result"] != "decided":
                raise click.ClickException(f"a ticket was {event['result']}: {self.said[-5:]}")
            yield datetime.fromisoformat(event["timestamp"])
            if sent - finished <= AHEAD - _AT_ONCE:
                sent += await self._send(waiting, _AT_ONCE)

    async def event(self, name: str) -> dict[str, Any]:
        """Wait for the next event of that name."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.said = [*self.said[-20:], line.decode()]
            if line.startswith(b"{") and (event := json.loads(line))["event"] == name:
                return dict(event)
        raise click.ClickException(f"the worker ended:\n{''.join(self.said)}")

    async def _send(self, waiting: Iterator[Sent], most: int) -> int:
        batch = [ticket for _, ticket in zip(range(most), waiting, strict=False)]
        await self.place.send(batch)
        return len(batch)


@asynccontextmanager
async def open_whole(emulator_url: str, model: Path, *flags: str) -> AsyncIterator[Whole]:
    """Start ``decision-worker run`` on queues of its own; kill it at the end."""
    async with open_place(emulator_url, visibility_seconds=60, max_receive_count=10) as place:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "worker", "run", "--model", str(model)),
            *("--queue-url", place.queue_url, "--topic-arn", place.topic_arn),
            *("--wait-seconds", "1", "--metrics-port", "0", *flags),
            env={
                **os.environ,
                "AWS_ENDPOINT_URL": emulator_url,
                "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
                "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
                "AWS_REGION": REGION,
                "AWS_EC2_METADATA_DISABLED": "true",
            },
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        whole = Whole(place, process)
        try:
            port = (await whole.event("metrics_port_opened"))["port"]
            whole.metrics_url = f"http://127.0.0.1:{port}/metrics"
            await whole.event("receive_started")
            yield whole
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()
