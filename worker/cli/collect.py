"""``decision-worker collect``: outcomes from a subscriber queue into a file."""

import asyncio
from collections.abc import Collection as Sized
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click

from worker.cli.options import SettingsCommand, read_settings
from worker.cli.progress import progress_bar
from worker.desk.collect import Collection, Collector
from worker.desk.journal import read_submitted
from worker.desk.outcomes import OutcomeFile, open_outcomes
from worker.desk.sqs import open_mailbox
from worker.desk.tables import check_format, collected_in, write_table
from worker.errors import ExitCode
from worker.lifecycle import Lifecycle
from worker.queue.aws import aws_connection
from worker.queue.locations import AllowList, Prefix
from worker.queue.opening import Bookcase
from worker.queue.s3 import open_documents
from worker.settings import Settings

_SHOWN = 20

_EXAMPLES = """\b
Examples:
  decision-worker collect --queue-url https://sqs…/outcomes \\
    --submitted letters.tickets.submitted.jsonl --output letters.csv
"""


# Not the setting queue_url: that names the queue of tickets, which nobody wants to drain.
@click.command(
    cls=SettingsCommand, epilog=_EXAMPLES, settings=("allow_bucket", "max_document_bytes")
)
@click.option("--queue-url", required=True, help="SQS queue that is subscribed to the topic")
@click.option(
    "--submitted",
    required=True,
    type=click.Path(path_type=Path),
    help="journal that `submit` wrote: the tickets to wait for",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="file to write, by its name JSONL, CSV or Parquet",
)
@click.option(
    "--timeout-seconds",
    default=900.0,
    type=click.FloatRange(min=0),
    help="give up when no outcome came for so long [900]",
)
def collect(
    queue_url: str, submitted: Path, output: Path, timeout_seconds: float, **flags: Any
) -> ExitCode:
    """Collect the outcomes of submitted tickets from a subscriber queue.

    The queue is one that is subscribed to the topic, with raw delivery or without; nobody else
    should read from it. Each outcome is written once, is on disk before it is deleted, and the
    same command goes on after an interruption. Outcomes of other tickets are left on the queue.
    JSONL holds outcomes as published. CSV and Parquet have the columns ticket_id, outcome_id,
    status, disposition, error_code, error_where, error_message, model, model_sha256, question_set;
    for each question answer.ID, probability.ID, confidence.ID, disposition.ID; and metadata.NAME.
    They are made at the end, from a .partial.jsonl beside them.

    Exit code 7 when outcomes are missing.
    """
    check_format(output)
    settings = read_settings(flags, usual_log_level="error")
    expected = read_submitted(submitted)
    with open_outcomes(collected_in(output)) as file:
        collector = asyncio.run(_collect(settings, queue_url, file, expected, timeout_seconds))
    if output.suffix != ".jsonl":
        write_table(output)
        if not collector.missing():
            collected_in(output).unlink()
    return _report(collector, output)


async def _collect(
    settings: Settings,
    queue_url: str,
    file: OutcomeFile,
    expected: set[str],
    timeout_seconds: float,
) -> Collector:
    aws = aws_connection()
    lifecycle = Lifecycle()
    async with AsyncExitStack() as stack:
        bookcase = None
        if settings.allow_bucket:
            documents = await stack.enter_async_context(open_documents(aws, connections=1))
            allowed = AllowList(tuple(map(Prefix.parse, settings.allow_bucket)))
            bookcase = Bookcase(documents, allowed, settings.max_document_bytes)
        collector = Collector(
            mailbox=await stack.enter_async_context(open_mailbox(aws, queue_url)),
            file=file,
            submitted=expected,
            bookcase=bookcase,
            timeout_seconds=timeout_seconds,
            on_step=stack.enter_context(progress_bar("Outcomes", len(expected))),
            stopping=lifecycle.stopping,
        )
        with lifecycle.signals():
            await collector.run()
    return collector


def _report(collector: Collector, output: Path) -> ExitCode:
    result, missing = collector.result, collector.missing()
    click.echo(
        f"collect: {len(collector.submitted) - len(missing)} of {len(collector.submitted)} tickets"
        f" are in {output}; {result.written} outcomes written now, {result.repeats} repeats"
        f" dropped, {len(missing)} missing"
    )
    _show_left(result)
    if not missing:
        return ExitCode.DONE
    _show_missing(missing)
    return ExitCode.FELL_SHORT


def _show_left(result: Collection) -> None:
    if result.fault:
        click.echo(f"the queue did not answer at last: {result.fault}", err=True)
    if result.others:
        click.echo(
            f"left {len(result.others)} outcomes of other tickets on the queue: give each"
            " submission a subscriber queue, or a filter policy, of its own",
            err=True,
        )
    if result.unreadable:
        click.echo(
            f"left {len(result.unreadable)} messages that are no outcome, or that lie in S3 where"
            " they cannot be read (--allow-bucket)",
            err=True,
        )


def _show_missing(missing: Sized[str]) -> None:
    for ticket_id in sorted(missing)[:_SHOWN]:
        click.echo(f"missing {ticket_id}", err=True)
    if len(missing) > _SHOWN:
        click.echo(f"missing {len(missing) - _SHOWN} more", err=True)
    click.echo(
        "collect: the same command goes on; `redrive` shows tickets that the worker gave up",
        err=True,
    )
