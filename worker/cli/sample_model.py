"""``decision-worker sample-model``: where the sample model is."""

from typing import Any

import click

from worker.cli.options import SettingsCommand
from worker.local.sample_model import assemble_sample_model
from worker.settings import load_settings


@click.command(cls=SettingsCommand, groups=())
@click.option("--cache-dir", metavar="PATH", help="folder to assemble it in")
def sample_model(**flags: Any) -> None:
    """Assemble the sample model, print its path, and its SHA-256 on a second line."""
    given = {name: value for name, value in flags.items() if value is not None}
    path, sha256 = assemble_sample_model(load_settings(given).cache_dir)
    click.echo(path)
    click.echo(sha256)
