"""``decision-worker demo``: the whole service on this machine, with nothing set up."""

import asyncio
import json
import sys
import time
from contextlib import aclosing
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from worker.app import run_faces
from worker.cli.options import SAMPLE, SettingsCommand, read_settings
from worker.cli.tables import outcome_table
from worker.errors import EngineFailed, ExitCode
from worker.lifecycle import Lifecycle
from worker.local.desk import Desk, local_session, open_desk
from worker.local.emulator import run_emulator
from worker.local.sample_tickets import SampleDesk, sample_desk
from worker.queue.aws import Connection
from worker.settings import Settings

_Outcome = dict[str, Any]


@click.command(cls=SettingsCommand, groups=("Model", "Engine"))
@click.option("--json", "as_json", is_flag=True, help="print outcomes as JSON lines instead")
def demo(as_json: bool, **flags: Any) -> ExitCode:
    """Answer the sample tickets of a support desk, with everything on this machine.

    Starts an AWS emulator in this process, sends 24 tickets with four questions each through a
    queue, and collects the outcomes from a topic. Needs no credentials and no network, and leaves
    nothing running. The sample model is small and not made for this: its answers are real but weak.
    """
    flags["model"] = flags.get("model") or str(SAMPLE)
    console = Console(stderr=True)
    with console.status("Preparing the sample model"):
        settings = read_settings(flags, usual_log_level="warning")
    sample = sample_desk()
    started_at = time.monotonic()
    with run_emulator() as endpoint_url:
        outcomes = asyncio.run(_run(settings, sample, endpoint_url, console))
    if outcomes is None:
        click.echo("demo: stopped before every ticket was answered", err=True)
        return ExitCode.DRAINED_UNFINISHED
    outcomes.sort(key=lambda outcome: str(outcome["ticket_id"]))
    if as_json:
        for outcome in outcomes:
            click.echo(json.dumps(outcome, ensure_ascii=False))
    else:
        Console().print(outcome_table(outcomes, sample.questions))
    _closing_line(sample, outcomes, time.monotonic() - started_at, to_stderr=as_json)
    return ExitCode.DONE


async def _run(
    settings: Settings, sample: SampleDesk, endpoint_url: str, console: Console
) -> list[_Outcome] | None:
    """Run the worker until every ticket is answered; None when a signal came first."""
    session = local_session()
    lifecycle = Lifecycle()
    async with open_desk(session, endpoint_url) as desk:
        await desk.send(sample.tickets)
        here = settings.model_copy(
            update={
                "queue_url": desk.queue_url,
                "topic_arn": desk.topic_arn,
                "wait_seconds": 1,
                "drain_seconds": 0.0,  # everything ends with this process
            }
        )
        collecting = asyncio.create_task(_collect(desk, len(sample.tickets), console))
        collecting.add_done_callback(lambda _: lifecycle.stop("every ticket is answered"))
        try:
            with lifecycle.signals():
                await run_faces(here, lifecycle, Connection(session, endpoint_url))
        finally:
            if not collecting.done():
                collecting.cancel()
            await asyncio.wait({collecting})
    if lifecycle.failure is not None:
        raise lifecycle.failure
    return None if collecting.cancelled() else collecting.result()


async def _collect(desk: Desk, expected: int, console: Console) -> list[_Outcome]:
    """Collect outcomes, each ticket once, while a bar shows how many are there."""
    found: dict[str, _Outcome] = {}
    progress = Progress(
        TextColumn("[bold]Tickets"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[tokens]} tokens evaluated"),
        TimeElapsedColumn(),
        console=console,
    )
    with progress:
        bar = progress.add_task("tickets", total=expected, tokens=0)
        async with aclosing(desk.outcomes()) as outcomes:
            async for outcome in outcomes:
                found[outcome["ticket_id"]] = outcome
                tokens = sum(map(_evaluated_tokens, found.values()))
                progress.update(bar, completed=len(found), tokens=tokens)
                if len(found) == expected:
                    return list(found.values())
    raise EngineFailed("the subscriber queue ended before every outcome was there")


def _closing_line(
    sample: SampleDesk, outcomes: list[_Outcome], seconds: float, *, to_stderr: bool
) -> None:
    decisions = sum(len(outcome.get("answers", {})) for outcome in outcomes)
    evaluated = sum(map(_evaluated_tokens, outcomes))
    reused = sum(outcome.get("usage", {}).get("reused_tokens", 0) for outcome in outcomes)
    line = (
        f"demo: {len(sample.tickets)} tickets, {len(outcomes)} outcomes, {decisions} decisions,"
        f" {evaluated} tokens evaluated, {reused} reused, {seconds:.1f} seconds"
    )
    click.echo(line, file=sys.stderr if to_stderr else sys.stdout)


def _evaluated_tokens(outcome: _Outcome) -> int:
    return int(outcome.get("usage", {}).get("evaluated_tokens", 0))
