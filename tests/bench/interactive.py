"""How long a caller waits while an overnight backlog is evaluated, against an idle machine.

Both are measured in one run, together with the time of one chunk under the same load: a caller who
waits may have to let one chunk of a long ticket end first.
"""

import asyncio
import json
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from worker.engine.cores import usable_cores
from worker.engine.llama import Model
from worker.engine.options import ModelOptions
from worker.engine.plan import CHUNK_TOKENS
from worker.engine.pool import Pool
from worker.engine.workload import Shape, synthetic_ticket
from worker.local.sample_model import assemble_sample_model
from worker.ports import Lane
from worker.settings import Settings

SHORT = Shape(60, 1, 20)
LONG = Shape(4000, 2, 40)
PAUSE_SECONDS = 0.05
ALLOWED_CHUNKS = 1.5


@dataclass(frozen=True, slots=True)
class Waiting:
    """Seconds.

    Attributes:
        idle: p50 and p95 of a short request on an idle machine.
        loaded: the same under a backlog.
        chunk: of one chunk of the backlog on its context, with all contexts busy.
    """

    idle: tuple[float, float]
    loaded: tuple[float, float]
    chunk: float

    @property
    def limit(self) -> float:
        """What p95 may be under load."""
        return self.idle[1] + ALLOWED_CHUNKS * self.chunk


class Bench:
    """One pool, and tickets that share no trunk."""

    def __init__(self, pool: Pool, contexts: int) -> None:
        self._pool = pool
        self._contexts = contexts
        self._number = 0

    async def ask(self) -> float:
        """Return the seconds that one short request takes."""
        self._number += 1
        ticket = synthetic_ticket(SHORT, self._number)
        started_at = time.perf_counter()
        await self._pool.score(ticket, Lane.INTERACTIVE)
        return time.perf_counter() - started_at

    async def several(self, requests: int) -> tuple[float, float]:
        """Return p50 and p95 of short requests, one after the other."""
        seconds = []
        for _ in range(requests):
            seconds.append(await self.ask())
            await asyncio.sleep(PAUSE_SECONDS)  # else they would always come right after each other
        return statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]

    async def backlog(self) -> None:
        """Keep more long tickets at hand than there are contexts, for ever."""

        async def one() -> None:
            while True:
                self._number += 1
                await self._pool.score(synthetic_ticket(LONG, self._number), Lane.BATCH)

        await asyncio.gather(*(one() for _ in range(2 * self._contexts)))

    async def chunk_seconds(self) -> float:
        """Return the time of one chunk when every context evaluates a long ticket."""
        tickets = [synthetic_ticket(LONG, -n) for n in range(1, self._contexts + 1)]
        replies = await asyncio.gather(*(self._pool.score(t, Lane.BATCH) for t in tickets))
        speeds = [reply.evaluated_tokens / reply.evaluation_seconds for reply in replies]
        return CHUNK_TOKENS / statistics.mean(speeds)

    async def measure(self, requests: int) -> Waiting:
        """Measure idle, loaded and a chunk, in this order."""
        await self.ask()  # the first one touches the weights
        idle = await self.several(requests)
        chunk = await self.chunk_seconds()
        backlog = asyncio.create_task(self.backlog())
        await asyncio.sleep(1)  # until every context has a long ticket
        loaded = await self.several(requests)
        backlog.cancel()
        with suppress(asyncio.CancelledError):
            await backlog
        return Waiting(idle, loaded, chunk)


def measure(model: Model, requests: int) -> Waiting:
    """Measure a pool as the worker makes it: a context for each core."""
    contexts = usable_cores()
    options = ModelOptions(context_tokens=8192, threads=1)
    pool = Pool(model, options, contexts=contexts, max_waiting_tokens=10**9)
    pool.start()
    try:
        return asyncio.run(Bench(pool, contexts).measure(requests))
    finally:
        pool.close()


def table(waiting: Waiting) -> Table:
    """Show p50 and p95, and whether p95 keeps its limit."""
    result = Table(title="A short request, in seconds", title_justify="left")
    for column in ("", "p50", "p95"):
        result.add_column(column, justify="right" if column else "left")
    result.add_row("idle machine", *(f"{seconds:.3f}" for seconds in waiting.idle))
    result.add_row("under a backlog", *(f"{seconds:.3f}" for seconds in waiting.loaded))
    verdict = "kept" if waiting.loaded[1] <= waiting.limit else "MISSED"
    result.caption = (
        f"limit for p95 under a backlog: idle + {ALLOWED_CHUNKS} × {waiting.chunk:.3f} (one chunk)"
        f" = {waiting.limit:.3f}: {verdict}"
    )
    return result


@click.command()
@click.option("--model", type=Path, help="GGUF file [the sample model]")
@click.option("--requests", default=40, show_default=True, help="on each side")
@click.option("--json", "as_json", is_flag=True, help="print the figures as JSON")
def main(model: Path | None, requests: int, as_json: bool) -> None:
    """Measure how long a caller waits on this machine, idle and under a backlog."""
    path = model or assemble_sample_model(Settings().cache_dir)[0]
    with Model.load(path, ModelOptions(context_tokens=8192, threads=1)) as loaded:
        waiting = measure(loaded, requests)
    if as_json:
        json.dump(asdict(waiting) | {"limit": waiting.limit}, sys.stdout, indent=2)
    else:
        Console().print(table(waiting))


if __name__ == "__main__":
    main()
