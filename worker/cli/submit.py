"""``decision-worker submit``: put a folder or a file of documents on a queue."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from worker.cli.given import read_questions
from worker.cli.options import SettingsCommand, read_settings
from worker.cli.progress import in_vain, progress_bar
from worker.decision.ticket import validate_ticket
from worker.desk.journal import Journal, open_journal
from worker.desk.letters import Asked, Letter, batches
from worker.desk.sources import (
    JOURNAL_SUFFIX,
    Reading,
    Skipped,
    check_sources,
    count_sources,
    read_sources,
)
from worker.desk.sqs import open_mailbox
from worker.desk.submit import Submission, Submitter
from worker.errors import ExitCode, Rejected, UsageError
from worker.lifecycle import Lifecycle
from worker.queue.aws import aws_connection
from worker.queue.locations import Prefix
from worker.queue.s3 import open_documents

_SHOWN = 20
_UPLOADS_AT_ONCE = 4

_EXAMPLES = """\b
Examples:
  decision-worker submit letters/ --questions questions.yaml --queue-url https://sqs…
  decision-worker submit mails.csv --column body --id-column id --question-set triage@2 \\
    --metadata batch=monday --queue-url https://sqs…
"""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is submitted where."""

    paths: tuple[Path, ...]
    reading: Reading
    asked: Asked
    queue_url: str
    journal_path: Path
    total: int


@click.command(cls=SettingsCommand, epilog=_EXAMPLES, settings=("queue_url", "max_document_bytes"))
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--question-set", help="ask a set that the worker has: NAME or NAME@VERSION")
@click.option("--questions", type=click.Path(path_type=Path), help="ask the questions in this file")
@click.option("--column", help="field of a JSONL line or CSV row that is the state [all of it]")
@click.option("--id-column", help="field that is the ticket id [file name and number]")
@click.option("--pattern", default="*", help="which files of a folder [*]")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="pass on to each outcome")
@click.option("--group", help="message group of all tickets, such as a tenant")
@click.option("--bucket", help="s3://bucket/prefix for documents too large for the queue")
@click.option(
    "--submitted", type=click.Path(path_type=Path), help="journal, for resume and collect"
)
@click.option("--dry-run", is_flag=True, help="read and count everything, send nothing")
def submit(sources: tuple[Path, ...], dry_run: bool, **flags: Any) -> ExitCode:
    """Put documents on a queue as tickets, one each.

    SOURCES are folders (each file a document; .json is structured), single files, or JSONL, CSV
    and TSV files (each line or row a document). UTF-8; single files may be gzip'd.

    What the queue has taken is noted in a journal beside the source. The same command goes on
    after an interruption: only what was in flight when the process was killed may be sent again,
    and its outcomes then have the same outcome id. Give the journal to `collect --submitted`.

    Exit codes: 2 when documents were skipped or refused, 6 when interrupted.
    """
    own = ("question_set", "questions", "column", "id_column", "pattern", "metadata")
    options = {name: flags.pop(name) for name in (*own, "group", "bucket", "submitted")}
    settings = read_settings(flags, usual_log_level="warning")
    reading = Reading(
        options["column"], options["id_column"], options["pattern"], settings.max_document_bytes
    )
    check_sources(sources, reading)
    if settings.queue_url is None and not dry_run:
        raise UsageError("submit needs --queue-url (or --dry-run)")
    queue_url = settings.queue_url or ""
    plan = _Plan(
        sources,
        reading,
        Asked(
            _fields(options),
            bucket=_bucket(options["bucket"]),
            group_id=options["group"],
            is_fifo=queue_url.endswith(".fifo"),
        ),
        queue_url,
        options["submitted"] or _beside(sources[0], queue_url),
        count_sources(sources, reading),
    )
    if dry_run:
        return _dry_run(plan)
    with open_journal(plan.journal_path, queue_url) as journal:
        return asyncio.run(_submit(plan, journal))


async def _submit(plan: _Plan, journal: Journal) -> ExitCode:
    aws = aws_connection()
    lifecycle = Lifecycle()
    async with AsyncExitStack() as stack:
        mailbox = await stack.enter_async_context(open_mailbox(aws, plan.queue_url))
        documents = None
        if plan.asked.bucket is not None:
            documents = await stack.enter_async_context(
                open_documents(aws, connections=_UPLOADS_AT_ONCE)
            )
        limits = await mailbox.limits()
        submitter = Submitter(
            mailbox=mailbox,
            journal=journal,
            asked=replace(plan.asked, max_bytes=limits.max_bytes),
            documents=documents,
            on_step=stack.enter_context(progress_bar("Tickets", plan.total)),
            stopping=lifecycle.stopping,
        )
        with lifecycle.signals(), in_vain(f"what was sent is in {plan.journal_path}"):
            await submitter.run(read_sources(plan.paths, plan.reading))
    return _report(plan, submitter.result, interrupted=lifecycle.stopping.is_set())


def _report(plan: _Plan, result: Submission, *, interrupted: bool) -> ExitCode:
    _show_skipped(result.skipped)
    click.echo(
        f"submit: {result.sent} sent ({result.size_bytes} bytes), {result.known} sent before,"
        f" {result.uploaded} documents to S3, {len(result.skipped)} skipped;"
        f" journal {plan.journal_path}"
    )
    if interrupted:
        click.echo("submit: interrupted; the same command goes on", err=True)
        return ExitCode.DRAINED_UNFINISHED
    return ExitCode.USAGE if result.skipped else ExitCode.DONE


def _dry_run(plan: _Plan) -> ExitCode:
    skipped: list[Skipped] = []
    letters = size = uploads = groups = 0

    def readable() -> Iterator[Letter]:
        for found in read_sources(plan.paths, plan.reading):
            letter = found if isinstance(found, Skipped) else plan.asked.letter(found)
            if isinstance(letter, Skipped):
                skipped.append(letter)
            else:
                yield letter

    for batch in batches(readable()):
        groups += 1
        letters += len(batch)
        size += sum(letter.size_bytes for letter in batch)
        uploads += sum(letter.upload is not None for letter in batch)
    _show_skipped(skipped)
    click.echo(
        f"dry run: {letters} tickets ({size} bytes) in {groups} batches, {uploads} documents to S3,"
        f" {len(skipped)} skipped; a queue that takes {plan.asked.max_bytes} bytes is assumed"
    )
    return ExitCode.USAGE if skipped else ExitCode.DONE


def _show_skipped(skipped: Sequence[Skipped]) -> None:
    for one in skipped[:_SHOWN]:
        click.echo(f"skipped {one.name}: {one.reason}", err=True)
    if len(skipped) > _SHOWN:
        click.echo(f"skipped {len(skipped) - _SHOWN} more", err=True)


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every ticket has beside id and state.

    Raises:
        UsageError: questions or metadata are none.
    """
    if (options["questions"] is None) == (options["question_set"] is None):
        raise UsageError("submit needs one of --question-set and --questions")
    fields: dict[str, Any] = {}
    if options["question_set"] is not None:
        fields["question_set"] = options["question_set"]
    else:
        fields["questions"] = read_questions(options["questions"])
    if options["metadata"]:
        pairs = [text.partition("=") for text in options["metadata"]]
        if not all(key and equals for key, equals, _ in pairs):
            raise UsageError("--metadata must be KEY=VALUE")
        fields["metadata"] = {key: value for key, _, value in pairs}
    try:
        validate_ticket({"state": "any", **fields})
    except Rejected as fault:
        raise UsageError(f"no ticket can have these: {fault}") from None
    return fields


def _bucket(text: str | None) -> Prefix | None:
    try:
        return None if text is None else Prefix.parse(text)
    except ValueError as error:
        raise UsageError(f"--bucket {error}") from None


def _beside(source: Path, queue_url: str) -> Path:
    """Return where the journal is kept: one for each first source and queue."""
    source = source.resolve()
    queue = queue_url.rstrip("/").rpartition("/")[2]
    return source.with_name(f"{source.name}.{queue}{JOURNAL_SUFFIX}")
