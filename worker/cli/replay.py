"""``decision-worker replay``: evaluate an outcome's ticket again, and say what differs."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.given import STANDARD_INPUT, read_questions, read_state, read_text
from worker.cli.options import SettingsCommand, read_settings
from worker.decision.replayed import STATE, Replayed
from worker.errors import ExitCode, UsageError
from worker.replay import read_outcome, settings_of
from worker.replay import replay as ask_again

_PLAIN_WIDTH = 1000
_SETTINGS = (
    "model",
    "prompt_file",
    "chat_template",
    "question_sets",
    "contexts",
    "threads",
    "context_tokens",
    "batch_tokens",
    "sequences",
    "main_gpu",
    "tensor_split",
    "load_mode",
)


@click.command(cls=SettingsCommand, groups=("Process",), settings=_SETTINGS)
@click.argument("outcome", metavar="OUTCOME")
@click.option(
    "--state",
    required=True,
    metavar="TEXT|@FILE|-",
    help="that the ticket was about: text, a file (.json is parsed), or standard input",
)
@click.option(
    "--questions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="that the ticket asked, JSON or YAML [those of the outcome's question set]",
)
@click.option(
    "--policy",
    metavar="FILE|s3://BUCKET/KEY",
    help="that made the verdicts, to check them as well",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def replay(
    outcome: str,
    state: str,
    questions: Path | None,
    policy: str | None,
    as_json: bool,
    **flags: Any,
) -> ExitCode:
    """Evaluate the ticket of a published outcome again: OUTCOME is a file of one, or -.

    Orders, windows, batching, KV type, flash attention, GPU layers and ubatch tokens are those that
    the outcome tells, as is the question set's version (from --question-sets). On the same model
    file, build and machine type the probabilities are the same to the last bit (with batching
    packed, within noise only). What follows from probabilities must be what the outcome says:
    choices, scores, confidence, the outcome's id and disposition, and with --policy each verdict.
    Exits with 0 when all is as it was, and with 7 and what differs when it is not.
    """
    if outcome == state == STANDARD_INPUT:
        raise UsageError("OUTCOME and --state cannot both read standard input")
    then = read_outcome(outcome, read_text(outcome))
    asked = None if questions is None else read_questions(questions)
    about = read_state(state)
    settings = read_settings({**flags, **settings_of(then)}, usual_log_level="warning")
    replayed = asyncio.run(ask_again(settings, then, about, asked, policy))
    if as_json:
        click.echo(json.dumps({"same": replayed.same, **asdict(replayed)}, ensure_ascii=False))
    else:
        _print(replayed)
    return ExitCode.DONE if replayed.same else ExitCode.FELL_SHORT


def _print(replayed: Replayed) -> None:
    # For a program, each row is one whole line.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    if replayed.differences or replayed.contradictions:
        console.print(_differences(replayed))
    if _fallen(replayed):
        console.print(_distances(replayed))
    for line in _conclusion(replayed):
        click.echo(f"replay: {line}")


def _differences(replayed: Replayed) -> Table:
    table = Table("differs", "outcome", "here", box=box.SIMPLE, pad_edge=False)
    for one in replayed.differences:
        table.add_row(Text(one.part), Text(one.then), Text(one.now or "none"))
    for other in replayed.contradictions:
        table.add_row(Text(other.part), Text(other.told), Text(other.follows))
    return table


def _distances(replayed: Replayed) -> Table:
    table = Table("question", "largest difference", box=box.SIMPLE, pad_edge=False)
    for key, distance in replayed.distances.items():
        shown = "asked otherwise" if distance is None else f"{distance:.3g}"
        table.add_row(Text(key), Text(shown))
    return table


def _fallen(replayed: Replayed) -> int:
    return sum(distance != 0.0 for distance in replayed.distances.values())


def _conclusion(replayed: Replayed) -> Iterator[str]:
    count, fell = len(replayed.distances), _fallen(replayed)
    if fell:
        yield f"{fell} of {count} answers have other probabilities"
    else:
        yield f"{count} answers, all probabilities are the same to the last bit"
    if fell and replayed.packed:
        yield "batching is packed: such answers are equal within noise only"
    elif fell and not replayed.differences:
        yield "nothing that the outcome tells is another here"
    if replayed.contradictions:
        yield f"{len(replayed.contradictions)} parts of the outcome do not follow from the others"
    if not fell and any(one.part == STATE for one in replayed.differences):
        yield "the outcome's id is not that of what it tells, or of another state"
    if not replayed.verdicts_checked:
        yield "verdicts were not checked: that takes the policy (--policy)"
