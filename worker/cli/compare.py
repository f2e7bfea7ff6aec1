"""``decision-worker compare``: what changed from one run to another."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.errors import ExitCode
from worker.quality.extra import check_extra
from worker.quality.run_file import read_run

if TYPE_CHECKING:  # importing the libraries takes seconds
    from worker.quality.comparison import Change, Comparison, Flip

_PLAIN_WIDTH = 1000
_CHANGES = (
    *("question", "answers", "flips", "largest shift", "mean shift"),
    *("accuracy", "change", "broken", "fixed", "p"),
)
_FLIPS = ("case", "question", "before", "after", "right")

_EXAMPLES = """\b
Examples:
  decision-worker compare q8.run.jsonl q4.run.jsonl --max-flips 0.02 --min-accuracy 0.8
"""


@click.command(epilog=_EXAMPLES)
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "--max-flips", type=click.FloatRange(0, 1), help="part of the answers that may change"
)
@click.option("--min-accuracy", type=click.FloatRange(0, 1), help="that AFTER must have")
@click.option(
    "--max-shift", type=click.FloatRange(0, 1), help="the most that a probability may change"
)
@click.option("--flips", default=20, type=click.IntRange(0), help="flips to list [20]")
@click.option("--resamples", default=500, type=click.IntRange(10), help="for intervals [500]")
@click.option("--seed", default=0, help="of everything that is drawn [0]")
@click.option("--json", "as_json", is_flag=True, help="print JSON, with every flip")
def compare(
    before: Path,
    after: Path,
    max_flips: float | None,
    min_accuracy: float | None,
    max_shift: float | None,
    flips: int,
    resamples: int,
    seed: int,
    as_json: bool,
) -> ExitCode:
    """Compare two runs of `evaluate` on the same cases.

    They may differ in model, quantisation, prompt, machine, or in how the questions are worded.
    Cases are paired by id and state, options by name.

    Exits with 7 when more changed than --max-flips and the like allow.
    """
    check_extra()
    # Only now: the libraries take seconds to import.
    from worker.quality.bootstrap import Draw
    from worker.quality.comparison import compare as pair

    comparison = pair(read_run(before), read_run(after), Draw(seed, resamples))
    limits = (("flips", max_flips), ("shift", max_shift), ("accuracy", min_accuracy))
    unmet = [
        told
        for (what, limit) in limits
        if limit is not None and (told := _unmet(comparison.all, what, limit))
    ]
    if as_json:
        tree = {**comparison.as_dict(), "unmet": unmet}
        click.echo(json.dumps(tree, ensure_ascii=False, indent=2))
    else:
        _print(comparison, flips)
    for told in unmet:
        click.echo(f"compare: {told}", err=True)
    return ExitCode.FELL_SHORT if unmet else ExitCode.DONE


def _unmet(change: "Change", what: str, limit: float) -> str | None:
    """Return in words why a limit is not kept; None if it is."""
    if what == "flips":
        told = f"{change.flips} of {change.answers} answers changed, at most {limit:g} of them may"
        return told if change.flipped > limit else None
    if what == "shift":
        told = f"a probability changed by {change.max_shift:.3g}, at most {limit:g} is allowed"
        return told if change.max_shift > limit else None
    if change.accuracy_after is None:
        return "the accuracy is not known: no case has a right answer"
    told = f"the accuracy is {change.accuracy_after:.4g}, required is {limit:g}"
    return told if change.accuracy_after < limit else None


def _print(comparison: "Comparison", flips: int) -> None:
    # For a program, each row is one whole line.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    table = _table(_CHANGES)
    for key, change in (*comparison.questions.items(), ("all", comparison.all)):
        table.add_row(Text(key), *_cells(change))
    console.print(table)
    if comparison.flips and flips:
        console.print(_flip_table(comparison.flips[:flips]))
    click.echo("compare: " + ", ".join(_told(comparison, flips)))


def _cells(change: "Change") -> tuple[str, ...]:
    counts = (
        str(change.answers),
        f"{change.flips} ({change.flipped:.1%})",
        f"{change.max_shift:.2g}",
        f"{change.mean_shift:.2g}",
    )
    if change.accuracy_before is None or change.accuracy_change is None:
        return counts
    return (
        *counts,
        f"{change.accuracy_before:.3f} → {change.accuracy_after:.3f}",
        f"{change.accuracy_change:+.3f}"
        f" ({change.accuracy_change_low:+.2f} to {change.accuracy_change_high:+.2f})",
        str(change.broken),
        str(change.fixed),
        f"{change.p_value:.3g}",
    )


def _flip_table(flips: "Sequence[Flip]") -> Table:
    table = _table(_FLIPS)
    for flip in flips:
        table.add_row(
            Text(flip.case),
            Text(flip.question),
            Text(f"{flip.before} ({flip.before_probability:.3f})"),
            Text(f"{flip.after} ({flip.after_probability:.3f})"),
            Text(flip.expected or ""),
        )
    return table


def _told(comparison: "Comparison", flips: int) -> Iterator[str]:
    yield f"{comparison.cases} cases in both runs"
    if comparison.left_out:
        yield f"{comparison.left_out} left out"
    if comparison.not_compared:
        yield f"questions with other options: {' '.join(comparison.not_compared)}"
    if comparison.seconds_before is not None and comparison.seconds_after is not None:
        yield (
            f"half of the answers within {comparison.seconds_before:.3f} s,"
            f" now {comparison.seconds_after:.3f} s"
        )
    if len(comparison.flips) > flips:
        yield f"{len(comparison.flips) - flips} flips more in --json"


def _table(columns: Sequence[str]) -> Table:
    return Table(*columns, box=box.SIMPLE, pad_edge=False, header_style="bold")
