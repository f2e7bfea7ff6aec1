"""Tickets per second of a whole worker, from the queue to the topic."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.bench.memory import tickets
from tests.bench.whole import open_whole


@dataclass(frozen=True)
class Throughput:
    """What was measured.

    Attributes:
        tickets_per_second: from the first that was finished to the last.
        tokens_per_second: that were evaluated meanwhile.
        engine_tokens_per_second: that the engine evaluates while it is busy.
        mean_seconds: from a ticket's receipt to its delete.
    """

    tickets_per_second: float
    tokens_per_second: float
    engine_tokens_per_second: float
    mean_seconds: float


async def measure(emulator_url: str, model: Path, count: int) -> Throughput:
    """Run *count* tickets through a worker with its usual settings."""
    times: list[datetime] = []
    async with open_whole(emulator_url, model) as whole:
        async for finished in whole.finish(tickets(count)):
            times.append(finished)
        figures = await whole.figures()
    seconds = (times[-1] - times[0]).total_seconds()
    taken = "decision_ticket_seconds"
    return Throughput(
        tickets_per_second=(count - 1) / seconds,
        tokens_per_second=figures.sum("decision_evaluated_tokens_total") / seconds,
        engine_tokens_per_second=figures.sum("decision_engine_tokens_per_second"),
        mean_seconds=figures.sum(f"{taken}_sum") / figures.sum(f"{taken}_count"),
    )
