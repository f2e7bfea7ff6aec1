"""``decision-worker redrive``: dead letters by reason, and back to the queue."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from worker.cli.options import SettingsCommand, read_settings
from worker.cli.progress import in_vain, progress_bar
from worker.desk.dead_letters import REDRIVEN, Group
from worker.desk.redrive import Redriven, Redriver, list_letters
from worker.desk.sqs import SqsMailbox, open_mailbox
from worker.errors import ExitCode, UsageError
from worker.queue.aws import aws_connection

_MOST = 10_000

_EXAMPLES = """\b
Examples:
  decision-worker redrive --queue-url https://sqs…/tickets
  decision-worker redrive --queue-url https://sqs…/tickets --reason document_gone
"""


@click.command(cls=SettingsCommand, epilog=_EXAMPLES, settings=("queue_url",))
@click.option("--dead-letter-url", help="dead-letter queue [the one in the queue's redrive policy]")
@click.option("--reason", "reasons", multiple=True, metavar="CODE", help="send these back")
@click.option("--all", "everything", is_flag=True, help="send everything back")
@click.option("--yes", is_flag=True, help="do not ask")
@click.option(
    "--most", default=_MOST, type=click.IntRange(min=1), help=f"look at so many [{_MOST}]"
)
def redrive(
    dead_letter_url: str | None,
    reasons: tuple[str, ...],
    everything: bool,
    yes: bool,
    most: int,
    **flags: Any,
) -> ExitCode:
    """Show a queue's dead letters by reason, and send chosen ones back.

    The reason is the code with which the worker rejected a ticket; `redriven` are messages that
    the queue itself moved after too many receipts. Nothing of a message's text is shown. A message
    goes back as it first came, without its reason, and is no dead letter any more only once the
    queue has confirmed it.

    Exit code 7 when the queue did not take all that was chosen.
    """
    settings = read_settings(flags, usual_log_level="warning")
    if settings.queue_url is None:
        raise UsageError("redrive needs --queue-url")
    if reasons and everything:
        raise UsageError("--reason and --all exclude each other")
    chosen = None if everything else reasons
    return asyncio.run(_redrive(settings.queue_url, dead_letter_url, chosen, yes=yes, most=most))


async def _redrive(
    queue_url: str,
    dead_letter_url: str | None,
    reasons: Sequence[str] | None,
    *,
    yes: bool,
    most: int,
) -> ExitCode:
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(open_mailbox(aws_connection(), queue_url))
        stack.enter_context(in_vain("what was sent back is gone from the dead letters"))
        dead = queue.another(dead_letter_url or await _dead_letter_url(queue))
        groups = await list_letters(dead, most=most)
        _show(groups, most)
        count = _chosen(groups, reasons)
        if not count:
            return ExitCode.DONE
        if not yes:
            _ask(count, queue_url)
        is_fifo = queue_url.endswith(".fifo")
        on_step = stack.enter_context(progress_bar("Sent back", count))
        redriver = Redriver(dead=dead, queue=queue, is_fifo=is_fifo, on_step=on_step)
        result = await redriver.run(reasons, most=most)
    return _report(result)


async def _dead_letter_url(queue: SqsMailbox) -> str:
    found = (await queue.limits()).dead_letter_url
    if found is None:
        raise UsageError(
            "the queue has no redrive policy; name its dead letters: --dead-letter-url"
        )
    return found


def _chosen(groups: Sequence[Group], reasons: Sequence[str] | None) -> int:
    """Return how many dead letters are chosen.

    Raises:
        UsageError: a reason is named that no dead letter has.
    """
    counts = {group.reason: group.count for group in groups}
    if reasons is None:
        return sum(counts.values())
    if unknown := [reason for reason in reasons if reason not in counts]:
        raise UsageError(f"no dead letter has the reason {', '.join(unknown)}")
    return sum(counts[reason] for reason in set(reasons))


def _ask(count: int, queue_url: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to confirm: --yes sends them back without asking")
    click.confirm(f"Send {count} messages back to {queue_url}?", abort=True)


def _show(groups: Sequence[Group], most: int) -> None:
    if not groups:
        click.echo("redrive: there are no dead letters, or others hold them now")
        return
    table = Table(box=box.SIMPLE, pad_edge=False, header_style="bold")
    for name, justify in (("reason", "left"), ("count", "right"), ("oldest", "left")):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    table.add_column("newest", no_wrap=True)
    for group in groups:
        reason = f"{REDRIVEN} by the queue" if group.reason == REDRIVEN else group.reason
        table.add_row(reason, str(group.count), _when(group.oldest_at), _when(group.newest_at))
    Console().print(table)
    if sum(group.count for group in groups) >= most:
        click.echo(f"redrive: there may be more than {most}; --most looks at more", err=True)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M") if seconds else ""


def _report(result: Redriven) -> ExitCode:
    click.echo(f"redrive: {result.sent} sent back, {result.left} refused by the queue")
    if result.undeleted:
        click.echo(
            f"redrive: {result.undeleted} of them are still dead letters as well; a repeat has the"
            " same outcome id",
            err=True,
        )
    return ExitCode.FELL_SHORT if result.left else ExitCode.DONE
