"""What ``doctor`` finds, and how it is printed."""

from collections.abc import Iterable
from dataclasses import dataclass

import click

from worker.errors import WorkerError


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        error: what is wrong with it; None when nothing is.
    """

    name: str
    text: str
    error: WorkerError | None = None


def print_findings(findings: Iterable[Finding]) -> None:
    """Print a line for each finding, marked when something is wrong."""
    for finding in findings:
        mark = "ok" if finding.error is None else "!!"
        text = finding.text if finding.error is None else f"{finding.text}: {finding.error}"
        click.echo(f"{mark}  {finding.name:<14} {text}")
