"""``make bench-whole``: what a whole worker does on an emulator."""

import asyncio
import json
import logging
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from tests.bench import memory, throughput
from tests.emulators import moto
from tests.tiny_gguf import write_tiny_gguf
from worker.local.sample_model import assemble_sample_model
from worker.settings import Settings


@click.command()
@click.option("--model", type=Path, help="GGUF file for tickets per second [the sample model]")
@click.option("--tickets", default=100, show_default=True, help="for tickets per second")
@click.option("--memory-tickets", default=10_000, show_default=True, help="for memory; 0: not")
@click.option("--output", type=Path, default=Path("build/bench/whole.json"), show_default=True)
def main(model: Path | None, tickets: int, memory_tickets: int, output: Path) -> None:
    """Measure tickets per second, and memory over many tickets on a tiny model."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    path = model or assemble_sample_model(Settings().cache_dir)[0]
    with moto() as emulator_url, tempfile.TemporaryDirectory() as folder:
        speed = asyncio.run(throughput.measure(emulator_url, path, tickets))
        click.echo(
            f"{path.name}: {speed.tickets_per_second:.2f} tickets/s,"
            f" {speed.mean_seconds:.2f} s each; {speed.tokens_per_second:.0f} tokens/s of"
            f" {speed.engine_tokens_per_second:.0f} while busy"
        )
        results: dict[str, object] = {"model": path.name, "speed": asdict(speed)}
        if memory_tickets:
            tiny = write_tiny_gguf(Path(folder) / "tiny.gguf")
            found = asyncio.run(memory.measure(emulator_url, tiny, memory_tickets))
            for finished, rss in found.rss_bytes.items():
                click.echo(f"{finished:6} tickets  {rss / 2**20:8.1f} MiB")
            click.echo(f"growth since {memory.FILLED} tickets: {found.growth:+.2%}")
            results["memory"] = asdict(found) | {"growth": found.growth}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    click.echo(f"written: {output}")


if __name__ == "__main__":
    main()
