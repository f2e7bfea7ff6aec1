"""``decision-worker check``: find what is wrong with question sets before customers do."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.brain import open_brain
from worker.cli.options import SettingsCommand, read_settings
from worker.decision.question_set import QuestionSets
from worker.errors import ExitCode, UsageError
from worker.library import open_shelf
from worker.outputs import write_output
from worker.quality.golden import ask_examples, expected_options
from worker.quality.lint import Finding, lint
from worker.quality.versions import (
    RECORD_NAME,
    check_versions,
    extend_record,
    read_record,
    write_record,
)
from worker.settings import Settings


@click.command(cls=SettingsCommand, groups=("Model", "Engine"))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--record", is_flag=True, help=f"write new versions into {RECORD_NAME}")
@click.option("--strict", is_flag=True, help="warnings fall short, too")
@click.option(
    "--min-agreement",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="the share of the examples' answers that the model must give",
)
@click.option("--json", "as_json", is_flag=True, help="print findings as JSON lines")
def check(
    folder: Path, record: bool, strict: bool, min_agreement: float, as_json: bool, **flags: Any
) -> ExitCode:
    """Check the question sets of a folder.

    Looks for options that contain each other, missing ways out, equal descriptions, and for wording
    that changed without a new version (against versions.lock in the folder, which --record
    extends). With --model the sets' examples are asked as well, and options that the model cannot
    tell apart are counted.

    Exits with 7 when something is wrong.
    """
    settings = read_settings({**flags, "question_sets": str(folder)}, usual_log_level="warning")
    sets, findings, agreement = asyncio.run(_check(settings, folder))
    if record:
        findings = [finding for finding in findings if finding.rule != "not_recorded"]
        _record(folder, sets)
    fell_short = agreement is not None and agreement < min_agreement
    if agreement is not None and not fell_short:
        # The model may miss some examples, as many as was said.
        findings = [
            Finding(one.rule, one.where, one.message) if one.rule == "example_missed" else one
            for one in findings
        ]
    _show(sets, findings, agreement, as_json=as_json)
    is_wrong = any(finding.is_error or strict for finding in findings)
    return ExitCode.FELL_SHORT if is_wrong else ExitCode.DONE


async def _check(
    settings: Settings, folder: Path
) -> tuple[QuestionSets, list[Finding], float | None]:
    shelf = await open_shelf(settings)
    if shelf is None or not len(shelf.sets):
        raise UsageError(f"{folder}: there is no question set")
    for one in shelf.sets:
        expected_options(one)
    findings = check_versions(shelf.sets, _recorded(folder))
    if settings.model is None:
        for one in shelf.sets:
            findings += lint(one)
        return shelf.sets, findings, None
    answers = missed = 0
    async with open_brain(settings) as brain:
        for one in shelf.sets:
            findings += lint(one, labels=brain.evaluator.wording.labels)
            examples = await ask_examples(brain.evaluator, one)
            findings += examples.findings
            answers += examples.answers
            missed += examples.missed
    return shelf.sets, findings, 1 - missed / answers if answers else None


def _recorded(folder: Path) -> dict[str, str]:
    try:
        return read_record((folder / RECORD_NAME).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder / RECORD_NAME}: {error}") from error


def _record(folder: Path, sets: QuestionSets) -> None:
    written = write_record(extend_record(_recorded(folder), sets))
    write_output(folder / RECORD_NAME, written.encode())


def _show(
    sets: QuestionSets, findings: list[Finding], agreement: float | None, *, as_json: bool
) -> None:
    if as_json:
        for one in findings:
            level = "error" if one.is_error else "warning"
            line = {"level": level, "rule": one.rule, "where": one.where, "message": one.message}
            click.echo(json.dumps(line, ensure_ascii=False))
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for one in findings:
        style = "bold red" if one.is_error else "yellow"
        table.add_row(Text(one.rule, style), Text(one.where), Text(one.message))
    if findings:
        Console().print(table)
    counts = Counter(finding.is_error for finding in findings)
    asked = "" if agreement is None else f", {agreement:.0%} of the examples' answers as expected"
    click.echo(
        f"check: {len(sets)} question sets, {counts[True]} errors, {counts[False]} warnings{asked}"
    )
