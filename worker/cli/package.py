"""``decision-worker package``: one archive of a model and what belongs to it."""

from pathlib import Path

import click

from worker.package.archive import Origin, write_package

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("model", type=_FILE, metavar="MODEL.gguf")
@click.option("-o", "--output", type=_FILE, default="model.tar.gz", show_default=True)
@click.option("--repository", help="where the model was taken from")
@click.option("--revision", help="which revision of it")
@click.option("--licence", help="that the model is under")
@click.option("--question-sets", type=click.Path(path_type=Path), help="folder of question sets")
@click.option("--policy", type=_FILE, help="file of thresholds")
def package(
    model: Path,
    output: Path,
    repository: str | None,
    revision: str | None,
    licence: str | None,
    question_sets: Path | None,
    policy: Path | None,
) -> None:
    """Write a model, its question sets and its policy as SageMaker's model.tar.gz.

    A model-manifest.json in it holds the checksums, which the worker compares at start. The same
    input makes the same bytes. Of a model in several parts name the first; all are packed.
    """
    origin = Origin(repository, revision, licence)
    packed = write_package(output, model, origin, question_sets, policy)
    click.echo(f"{output}  {packed.size_bytes} bytes  sha256 {packed.sha256}")
    click.echo(f"{packed.manifest.file}  sha256 {packed.manifest.sha256}")
