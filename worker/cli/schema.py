"""``decision-worker schema``: print the JSON Schema of a format."""

import click

from worker.decision.schemas import NAMES, Name, shipped


@click.command()
@click.argument("name", type=click.Choice(NAMES))
def schema(name: Name) -> None:
    """Print a format's JSON Schema (2020-12): of a ticket, an outcome, or a file that people write.

    For editors and for programs that write or read these; the worker's own checks also find what
    no schema can say, such as repeated keys.
    """
    click.echo(shipped(name), nl=False)
