"""``make soak``: minutes of faults, and a closing table; the exit code says whether it balanced."""

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tests.soak.fleet import Fleet
from tests.soak.place import Place
from tests.soak.soak import Plan, Report, Soak
from tests.tiny_gguf import write_tiny_gguf
from worker.local.emulator import run_emulator

_TELL_SECONDS = 10.0


class Teller:
    """Prints a line of progress now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_at = 0.0

    def __call__(self, place: Place, fleet: Fleet, counts: tuple[int, int], seconds: float) -> None:
        if seconds < self._next_at:
            return
        self._next_at = seconds + _TELL_SECONDS
        self._console.print(
            f"{seconds:5.0f} s: {len(place.sent)} sent, {len(place.outcomes)} with an outcome,"
            f" {len(set(place.redriven))} redriven, {counts[0]} visible, {counts[1]} hidden;"
            f" {fleet.starts} starts, {sum(fleet.strikes.values())} signals",
            highlight=False,
        )


def table(report: Report) -> Table:
    account, fleet = report.account, report.fleet
    found = Table(title=f"{report.seconds:.0f} seconds", show_header=False)
    rows: dict[str, object] = {
        "sent": sum(account.sent.values()),
        **{f"  {kind}": count for kind, count in sorted(account.sent.items())},
        "ended": sum(account.ends.values()),
        **{f"  {end}": count for end, count in sorted(account.ends.items())},
        "repeated outcomes": account.repeats,
        "faults injected": sum(report.faults.met.values()),
        **{f"  {fault}": count for fault, count in sorted(report.faults.met.items())},
        **{f"signals: {name}": count for name, count in sorted(fleet.strikes.items())},
        **{f"exits: {code}": count for code, count in sorted(fleet.codes.items())},
        "leases lost": fleet.events["lease_lost"],
    }
    for name, value in rows.items():
        found.add_row(name, str(value))
    return found


def wrongs(report: Report) -> list[str]:
    """Say what should not be, a line each."""
    found = [
        f"{name}: {len(names)} ({', '.join(names[:5])})"
        for name, names in report.account.faults().items()
    ]
    if not report.emptied:
        found.append("the queue did not become empty in time")
    if bugs := report.fleet.events["delivery_failed"]:
        found.append(f"deliveries that met a bug: {bugs}")
    return found + report.fleet.faults


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="for which tickets are sent")
@click.option("--workers", default=3, show_default=True, help="processes")
@click.option("--fault-share", default=0.05, show_default=True, help="of calls that meet a fault")
@click.option("--seed", type=int, help="of tickets, faults and signals [random]")
def main(minutes: float, workers: int, fault_share: float, seed: int | None) -> None:
    """Sends tickets to workers that are killed, through a proxy that injects faults; counts."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    console = Console()
    console.print(f"seed {seed}", highlight=False)
    with tempfile.TemporaryDirectory() as name, run_emulator() as emulator_url:
        folder = Path(name)
        plan = Plan(
            model=write_tiny_gguf(folder / "tiny.gguf"),
            seed=seed,
            workers=workers,
            seconds=minutes * 60,
            poison_seconds=max(30.0, min(120.0, minutes * 30)),
            fault_share=fault_share,
        )
        report = asyncio.run(Soak(plan, Teller(console)).run(emulator_url, folder))
    console.print(table(report))
    if found := wrongs(report):
        console.print(f"[bold]does not balance[/] (seed {seed})", highlight=False)
        for line in found:
            console.print(line, highlight=False, markup=False)
        sys.exit(1)
    console.print("balanced: each ticket ended once, as it should")


if __name__ == "__main__":
    main()
