"""``decision-worker tune``: measure how this machine runs a model best."""

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from worker.brain import check_model, model_options
from worker.cli.options import SettingsCommand, read_settings
from worker.engine.cores import usable_cores
from worker.engine.options import Batching
from worker.engine.proof import prove_build
from worker.errors import CannotRun


@click.command(cls=SettingsCommand, groups=("Model",), settings=("batching", "gpu_layers"))
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    help="how long to measure at least; every way is measured twice",
)
def tune(seconds: float, **flags: Any) -> None:
    """Measure contexts, threads, attention kernel and cache type for a model on this machine.

    With batching packed: sequences and tokens of a call, attention kernel and cache type. Shows a
    table and prints the settings to use. Contexts and threads change no answer; the attention
    kernel and the cache type do, by rounding, so change them before a model is calibrated and not
    after.
    """
    settings = read_settings(flags, usual_log_level="error")
    path = check_model(settings)
    if settings.prove_build:
        prove_build(path, settings.gpu_layers)
    # Only now: see worker.brain.open_brain.
    from worker.engine.llama import Model
    from worker.engine.tuning import Way, measure_ways, ways

    options = model_options(settings)
    medians: dict[Way, float] = {}
    with (
        Model.load(path, options) as model,
        Console(stderr=True).status("Measuring") as status,
    ):
        candidates = list(ways(usable_cores(), Batching(settings.batching)))
        measuring = measure_ways(model, options, candidates, seconds)
        for count, so_far in enumerate(measuring, 1):
            medians = so_far
            status.update(f"Measuring: {count} measurements of {len(candidates)} ways")
    if not medians:
        raise CannotRun("no way to run this model could be measured")
    found = sorted(medians.items(), key=lambda entry: -entry[1])
    best, top_speed = found[0]
    table = Table(box=None, pad_edge=False, header_style="bold")
    sizes = "sequences, batch tokens" if best.is_packed else "contexts × threads"
    for heading in (sizes, "flash attention", "kv type", "tokens/s", "÷ best"):
        table.add_column(heading, justify="right")
    for way, speed in found:
        sizes = f"{way.contexts} × {way.threads}"
        if way.is_packed:
            sizes = f"{way.sequences}, {way.batch_tokens}"
        ratio = f"{speed / top_speed:.2f}"
        table.add_row(sizes, way.flash_attention, way.kv_type, f"{speed:.0f}", ratio)
    Console().print(table)
    click.echo(best.flags())
    click.echo(
        "Measure on a quiet machine. Attention kernel and cache type change answers by rounding.",
        err=True,
    )
