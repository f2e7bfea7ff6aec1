"""``decision-worker schema``: print the JSON Schema of a format."""

import click

from worker.decision.schemas import NAMES, Name, shipped


@click.command()
@click.argument("name", type=click.Choice(NAMES))
def schema(name: Name) -> None:
    """Print the JSON Schema (2020-12) of a ticket, an outcome, a question set or a policy.

    For editors and for programs that write or read these; the worker's own checks also find what
    no schema can say, such as repeated keys.
    """
    click.echo(shipped(name), nl=False)
