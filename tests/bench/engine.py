"""`make bench-engine`: the engine against llama.cpp's plain prompt speed and its own server.

Every repetition measures all ways one after the other, so that a noisy neighbour hits all of them;
medians are compared inside one run only.
"""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.bench.native import Request, body, contestants, mark_as_openjev
from tests.bench.picture import draw
from tests.bench.ways import CONTEXT_TOKENS, Ways
from worker.engine.cores import usable_cores
from worker.engine.llama import Model
from worker.engine.options import ModelOptions
from worker.engine.workload import Shape
from worker.local.sample_model import assemble_sample_model
from worker.settings import Settings

Point = tuple[Shape, int]
"""A shape of ticket, and how many are at hand."""

Medians = Mapping[str, Mapping[str, float]]
"""By what was measured, by way."""

CORE: tuple[Point, ...] = (
    (Shape(30, 3, 20), 4),
    (Shape(60, 4, 30), 4),
    (Shape(200, 8, 40), 4),
    (Shape(800, 24, 40), 4),
)
GROWTH: dict[str, tuple[Point, ...]] = {
    "tokens of the state": tuple((Shape(state, 4, 40), 1) for state in (30, 256, 1024, 4096)),
    "questions": tuple((Shape(200, questions, 40), 1) for questions in (1, 4, 16, 64)),
    "tickets at once": tuple((Shape(60, 4, 30), tickets) for tickets in (1, 2, 4, 16)),
}
REQUESTS = (Request(50, 4), Request(200, 8), Request(700, 24))
AT_ONCE = (1, 4)
WAYS = ("pool", "one context", "packed")


class Notebook:
    """What was measured, by row and by way."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, list[float]]] = {}

    def note(self, row: str, way: str, value: float) -> None:
        self._found.setdefault(row, {}).setdefault(way, []).append(value)

    def medians(self) -> dict[str, dict[str, float]]:
        return {
            row: {way: statistics.median(values) for way, values in ways.items()}
            for row, ways in self._found.items()
        }


def row_of(point: Point) -> str:
    """Name a point."""
    shape, tickets = point
    return f"{tickets} × ({shape})"


def measure_ways(
    model: Path, points: Sequence[Point], repetitions: int, step: Callable[[], None]
) -> Medians:
    """Measure tokens per second of every way at every point."""
    notes = Notebook()
    with (
        Model.load(model, ModelOptions(context_tokens=CONTEXT_TOKENS, threads=1)) as loaded,
        Ways(loaded, usable_cores()) as ways,
    ):
        for _ in range(repetitions):
            for point in points:
                row = row_of(point)
                notes.note(row, "limit", ways.limit())
                for way in WAYS:
                    notes.note(row, way, ways.speed(way, *point))
                notes.note(row, "one by one", ways.one_by_one(point[0]))
                step()
            notes.note("restoring", "÷ evaluating", ways.restoring())
    return notes.medians()


def measure_native(source: Path, repetitions: int, step: Callable[[], None]) -> Medians:
    """Measure seconds of whole requests, answered by the worker and by native servers."""
    notes = Notebook()
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        marked = mark_as_openjev(source, Path(folder) / "openjev.gguf")
        with contestants(marked, usable_cores()) as found:
            for _ in range(repetitions):
                for request in REQUESTS:
                    for at_once in AT_ONCE:
                        for name, timed in found.items():
                            numbers = range(number, number + at_once)
                            seconds = timed([body(request, one) for one in numbers])
                            notes.note(f"{at_once} × ({request})", name, seconds)
                            number += at_once
                        step()
    return notes.medians()


def ways_table(medians: Medians) -> Table:
    """Show speeds as ratios to the limit measured beside them."""
    result = Table(title="Evaluated tokens per second ÷ plain prompt speed", title_justify="left")
    for column in ("tickets × (state + questions)", "limit, tok/s", *WAYS, "pool ÷ one by one"):
        result.add_column(column, justify="right")
    for row, ways in medians.items():
        if "limit" not in ways:
            continue
        result.add_row(
            row,
            f"{ways['limit']:.0f}",
            *(f"{ways[way] / ways['limit']:.2f}" for way in WAYS),
            f"{ways['pool'] / ways['one by one']:.1f}",
        )
    restoring = medians["restoring"]["÷ evaluating"]
    result.caption = f"restoring a parked trunk ÷ evaluating it: {restoring:.4f}"
    return result


def native_table(medians: Medians) -> Table:
    """Show how much longer native servers take than the worker."""
    names = [name for name in next(iter(medians.values())) if name != "worker"]
    result = Table(title="Seconds of native servers ÷ the worker's", title_justify="left")
    for column in ("requests × (state × questions)", "worker, s", *names):
        result.add_column(column, justify="right")
    for row, found in medians.items():
        ratios = (f"{found[name] / found['worker']:.2f}" for name in names)
        result.add_row(row, f"{found['worker']:.2f}", *ratios)
    return result


def _growth_rows() -> Iterator[tuple[str, list[tuple[int, str]]]]:
    for name, points in GROWTH.items():
        yield (
            name,
            [
                (
                    {
                        "tokens of the state": shape.state,
                        "questions": shape.questions,
                        "tickets at once": tickets,
                    }[name],
                    row_of((shape, tickets)),
                )
                for shape, tickets in points
            ],
        )


@click.command()
@click.option("--model", type=Path, help="GGUF file [the sample model]")
@click.option("--repetitions", default=3, show_default=True)
@click.option("--core", is_flag=True, help="only the four usual tickets, no native server")
@click.option(
    "--output", type=Path, default=Path("build/bench"), show_default=True, help="for JSON and plot"
)
def main(model: Path | None, repetitions: int, output: Path, *, core: bool) -> None:
    """Measure the engine on this machine."""
    path = model or assemble_sample_model(Settings().cache_dir)[0]
    points = dict.fromkeys(CORE)
    if not core:
        points |= dict.fromkeys(point for line in GROWTH.values() for point in line)
    steps = repetitions * (len(points) + (0 if core else len(REQUESTS) * len(AT_ONCE)))
    results: dict[str, Any] = {"cores": usable_cores(), "model": path.name}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("Measuring", total=steps)
        step = lambda: progress.advance(task)  # noqa: E731 - one line for two uses
        results["ways"] = measure_ways(path, list(points), repetitions, step)
        if not core:
            results["native"] = measure_native(path, repetitions, step)
    console = Console()
    console.print(ways_table(results["ways"]))
    output.mkdir(parents=True, exist_ok=True)
    if not core:
        console.print(native_table(results["native"]))
        draw(results["ways"], dict(_growth_rows()), ("limit", *WAYS), output / "engine.svg")
        console.print(f"drawn: {output / 'engine.svg'}")
    (output / "engine.json").write_text(json.dumps(results, indent=2, ensure_ascii=False))
    console.print(f"written: {output / 'engine.json'}")


if __name__ == "__main__":
    main()
