"""Evaluated tokens per second of the engine, against llama.cpp's plain prompt speed.

Every repetition measures all ways one after the other, so that a noisy neighbour hits all of them;
medians are compared inside one run only.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from worker.engine.cores import usable_cores
from worker.engine.exact import TRUNK
from worker.engine.llama import Context, Model
from worker.engine.options import ModelOptions
from worker.engine.pool import Pool
from worker.engine.workload import Shape, synthetic_ticket, tokens_per_second
from worker.local.sample_model import assemble_sample_model
from worker.settings import Settings

PROMPT_TOKENS = 512
TICKETS = 4


SHAPES = (Shape(30, 3, 20), Shape(60, 4, 30), Shape(200, 8, 40), Shape(800, 24, 40))
PARKED = Shape(1300, 1, 40)


@contextmanager
def running(pool: Pool) -> Iterator[Pool]:
    pool.start()
    try:
        yield pool
    finally:
        pool.close()


class Bench:
    """One model on this machine."""

    def __init__(self, model: Model, cores: int) -> None:
        self._model = model
        self._cores = cores
        self._number = 0

    def options(self, threads: int) -> ModelOptions:
        return ModelOptions(context_tokens=8192, threads=threads)

    def pool(self, contexts: int, threads: int) -> Pool:
        return Pool(
            self._model,
            self.options(threads),
            contexts=contexts,
            max_waiting_tokens=10**9,
        )

    def limit(self) -> float:
        """Tokens per second of a plain prompt on one context with all threads."""
        with Context(self._model, self.options(self._cores)) as context:
            tokens = list(range(1000, 1000 + PROMPT_TOKENS))
            started_at = time.perf_counter()
            context.decode(tokens, position=0, sequence=TRUNK, read=True)
            context.read([0])
            return PROMPT_TOKENS / (time.perf_counter() - started_at)

    def speed(self, pool: Pool, shape: Shape) -> float:
        """Evaluated tokens per second with several tickets at hand."""
        tickets = [synthetic_ticket(shape, self._next()) for _ in range(TICKETS)]
        return asyncio.run(tokens_per_second(pool, tickets))

    def one_at_a_time(self, shape: Shape) -> float:
        """Useful tokens per second when each question is a prompt of its own."""
        with Context(self._model, self.options(self._cores)) as context:
            ticket = synthetic_ticket(shape, self._next())
            prompts = [self._model.encode(branch.prompt) for branch in ticket.branches]
            started_at = time.perf_counter()
            for prompt in prompts[:2]:  # the others take as long
                for start in range(0, len(prompt), PROMPT_TOKENS):
                    chunk = prompt[start : start + PROMPT_TOKENS]
                    context.decode(chunk, position=start, sequence=TRUNK, read=True)
                context.read([0])
                context.remove(TRUNK)
            seconds = (time.perf_counter() - started_at) * len(prompts) / 2
        shared = shape.state + shape.questions * shape.words
        return shared / seconds

    def restoring(self) -> float:
        """Seconds to restore a parked trunk, divided by the seconds to evaluate it."""
        with Context(self._model, self.options(self._cores)) as context:
            tokens = self._model.encode(synthetic_ticket(PARKED, self._next()).branches[0].prompt)
            started_at = time.perf_counter()
            for start in range(0, PARKED.state, PROMPT_TOKENS):
                chunk = tokens[start : start + PROMPT_TOKENS]
                context.decode(chunk, position=start, sequence=TRUNK)
            evaluated = time.perf_counter() - started_at
            state = context.save()
            context.remove(TRUNK)
            started_at = time.perf_counter()
            context.restore(state)
            restored = time.perf_counter() - started_at
        return restored / evaluated

    def _next(self) -> int:
        self._number += 1
        return self._number


def measure(model: Model, repetitions: int) -> dict[str, Any]:
    """Return the medians of all ways and shapes."""
    cores = usable_cores()
    bench = Bench(model, cores)
    found: dict[str, list[float]] = {}

    def note(name: str, value: Callable[[], float]) -> None:
        found.setdefault(name, []).append(value())

    with running(bench.pool(cores, 1)) as pool, running(bench.pool(1, cores)) as single:
        for _ in track(range(repetitions), "Measuring", console=Console(stderr=True)):
            for shape in SHAPES:
                note(f"limit | {shape}", bench.limit)
                note(f"pool | {shape}", lambda shape=shape: bench.speed(pool, shape))
                note(f"single | {shape}", lambda shape=shape: bench.speed(single, shape))
                note(f"alone | {shape}", lambda shape=shape: bench.one_at_a_time(shape))
            note("restoring", bench.restoring)
    return {name: statistics.median(values) for name, values in found.items()}


def table(medians: dict[str, float]) -> Table:
    """Show speeds as ratios to the limit measured beside them."""
    result = Table(title="Evaluated tokens per second ÷ plain prompt speed", title_justify="left")
    for column in ("state + questions", "limit, tok/s", "pool", "one context", "pool ÷ one by one"):
        result.add_column(column, justify="right")
    for shape in SHAPES:
        limit = medians[f"limit | {shape}"]
        pool = medians[f"pool | {shape}"]
        result.add_row(
            str(shape),
            f"{limit:.0f}",
            f"{pool / limit:.2f}",
            f"{medians[f'single | {shape}'] / limit:.2f}",
            f"{pool / medians[f'alone | {shape}']:.1f}",
        )
    result.caption = f"restoring a parked trunk ÷ evaluating it: {medians['restoring']:.4f}"
    return result


@click.command()
@click.option("--model", type=Path, help="GGUF file [the sample model]")
@click.option("--repetitions", default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="print medians as JSON")
def main(model: Path | None, repetitions: int, as_json: bool) -> None:
    """Measure the engine on this machine."""
    path = model or assemble_sample_model(Settings().cache_dir)[0]
    with Model.load(path, ModelOptions(context_tokens=8192, threads=1)) as loaded:
        medians = measure(loaded, repetitions)
    if as_json:
        json.dump(medians, sys.stdout, indent=2)
    else:
        Console().print(table(medians))
