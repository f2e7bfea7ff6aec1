"""``decision-worker sets``: list the question sets that tickets may ask by name."""

import asyncio
import json
import sys
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.options import SettingsCommand, read_settings
from worker.decision.question_set import QuestionSet, QuestionSets, describe
from worker.errors import UsageError
from worker.library import open_shelf
from worker.settings import Settings

_COLUMNS = ("set", "questions", "sha256", "owner", "approver", "languages", "description")
_SHOWN_DIGITS = 12
_PLAIN_WIDTH = 1000


@click.command(cls=SettingsCommand, groups=("Decisions",))
@click.option("--json", "as_json", is_flag=True, help="print JSON, with whole checksums")
def sets(as_json: bool, **flags: Any) -> None:
    """List question sets: name, version, number of questions, checksum, owner.

    Exits with 2 and everything that is wrong when a file cannot be used.
    """
    settings = read_settings(flags, usual_log_level="warning")
    found = asyncio.run(_load(settings))
    if as_json:
        click.echo(json.dumps([describe(one) for one in found], ensure_ascii=False, indent=2))
        return
    # For a program, each set is one whole line.
    Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH).print(_table(found))


async def _load(settings: Settings) -> QuestionSets:
    shelf = await open_shelf(settings)
    if shelf is None:
        raise UsageError("no question sets: set --question-sets to a folder")
    return shelf.sets


def _table(found: QuestionSets) -> Table:
    table = Table(*_COLUMNS, box=box.SIMPLE, pad_edge=False, header_style="bold")
    for one in found:
        table.add_row(*(Text(_plain(text)) for text in _row(one)))
    return table


def _plain(text: str) -> str:
    """Return a text whose control characters a terminal shows instead of obeying them."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _row(one: QuestionSet) -> tuple[str, ...]:
    return (
        one.key,
        str(len(one.questions)),
        one.sha256()[:_SHOWN_DIGITS],
        one.owner,
        one.approver,
        " ".join(one.languages),
        one.description,
    )
