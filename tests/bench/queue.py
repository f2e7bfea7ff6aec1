"""``make bench-queue``: our messages per second against a bare loop of the same calls.

The worker runs whole, but for its engine, which answers at once. Both empty a queue that was filled
before; counted is the time from the first finished message to the last.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import click

from tests.emulators import ministack
from tests.factories import make_body
from tests.soak.place import CREDENTIALS, REGION, open_place
from tests.soak.tickets import Kind, Sent
from tests.tiny_gguf import write_tiny_gguf

GOAL = 0.8
WAYS = ("worker", "bare")
IN_HAND = 100


async def rate(way: str, emulator_url: str, folder: Path, messages: int) -> float:
    """Return messages per second of one way."""
    async with open_place(emulator_url, visibility_seconds=60, max_receive_count=10) as place:
        await place.send([Sent(str(n), Kind.GOOD, make_body()) for n in range(messages)])
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.bench.queue_process",
            env={
                **os.environ,
                "BENCH_WAY": way,
                "AWS_ENDPOINT_URL": emulator_url,
                "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
                "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
                "AWS_REGION": REGION,
                "AWS_DEFAULT_REGION": REGION,
                "WORKER_MODEL": str(folder / "tiny.gguf"),
                "WORKER_QUEUE_URL": place.queue_url,
                "WORKER_TOPIC_ARN": place.topic_arn,
                "WORKER_WAIT_SECONDS": "1",
                "WORKER_MAX_IN_HAND": str(IN_HAND),
            },
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        finished: list[datetime] = []
        said: list[str] = []
        async for line in process.stderr:
            said.append(line.decode())
            if b'"delivery_finished"' in line:
                event = json.loads(line)
                assert event.get("result", "decided") == "decided"
                finished.append(datetime.fromisoformat(event["timestamp"]))
            if len(finished) == messages:
                process.kill()
                break
        await process.communicate()
        if len(finished) < messages:
            raise click.ClickException(f"{way} ended early:\n{''.join(said[-5:])}")
        return (messages - 1) / (max(finished) - min(finished)).total_seconds()


@click.command()
@click.option("--messages", default=2000, show_default=True, help="in each repetition")
@click.option("--repetitions", default=5, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/bench-queue.json"))
def main(messages: int, repetitions: int, output: Path) -> None:
    """Measures both ways in turn; the exit code says whether the median ratio reaches the goal."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name, ministack() as emulator_url:
        write_tiny_gguf(Path(name) / "tiny.gguf")
        for repetition in range(repetitions):
            # In turn, and each first in turn: what else the machine does falls on both.
            for way in WAYS if repetition % 2 else reversed(WAYS):
                found = asyncio.run(rate(way, emulator_url, Path(name), messages))
                rates[way].append(found)
                click.echo(f"{way:6}  {found:7.0f} messages/s")
    ratios = [ours / bare for ours, bare in zip(rates["worker"], rates["bare"], strict=True)]
    ratio = statistics.median(ratios)
    output.parent.mkdir(parents=True, exist_ok=True)
    figures = {"messages": messages, "rates": rates, "ratios": ratios, "median_ratio": ratio}
    output.write_text(json.dumps(figures, indent=2) + "\n")
    click.echo(f"median ratio {ratio:.2f} (goal {GOAL}); {output}")
    sys.exit(ratio < GOAL)


if __name__ == "__main__":
    main()
