"""What commands that take a while have in common: a bar on a terminal, an end that explains."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from worker.errors import AwsUnavailable, AwsUnusable


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the body runs, on standard error, if that is a terminal.

    Yields:
        What is told how many more are done.
    """
    console = Console(stderr=True)
    progress = Progress(
        TextColumn(f"[bold]{title}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with progress:
        bar = progress.add_task(title, total=total)
        yield lambda more: progress.update(bar, advance=more)


@contextmanager
def in_vain(consolation: str) -> Iterator[None]:
    """End the command when AWS does not answer however often it is asked.

    Raises:
        AwsUnusable: with *consolation*, which says what was done and what to do.
    """
    try:
        yield
    except AwsUnavailable as error:
        raise AwsUnusable(f"{error}; {consolation}, and the same command goes on") from error
