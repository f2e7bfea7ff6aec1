"""A worker's memory over thousands of tickets."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from tests.bench.whole import open_whole

FILLED = 1_000
"""After so many tickets every cache is full."""

PARKED_MEBIBYTES = 2
_EVERY = 500
_WORDS = [
    "please",
    "help",
    "me",
    "with",
    "my",
    "last",
    "invoice",
    "it",
    "is",
    "wrong",
    "again",
    "and",
    "nobody",
    "answers",
]
_QUESTIONS = {
    "team": {
        "type": "choice",
        "instructions": "Who handles this?",
        "criteria": {"billing": "money", "tech": None, "none": "none of these"},
    },
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "mad"]},
    "refund": {"type": "noul", "instructions": "Is money wanted back?"},
}


@dataclass(frozen=True)
class Memory:
    """What was measured.

    Attributes:
        rss_bytes: by the number of tickets that were finished.
        parked_bytes: of trunks, once the caches should be full.
        evicted_trunks: until then.
    """

    rss_bytes: dict[int, int]
    parked_bytes: int
    evicted_trunks: int

    @property
    def growth(self) -> float:
        """By what share the last figure is above the one with full caches."""
        return self.rss_bytes[max(self.rss_bytes)] / self.rss_bytes[FILLED] - 1


def tickets(count: int) -> list[str]:
    """Return bodies with states of many lengths; every fourth has been there before."""
    draw = random.Random(7)
    states: list[str] = []
    for number in range(count):
        again = states and number % 4 == 3
        words = draw.choices(_WORDS, k=draw.randint(5, 120))
        states.append(draw.choice(states[-200:]) if again else " ".join(words))
    return [
        json.dumps({"ticket_id": f"t-{number}", "state": state, "questions": _QUESTIONS})
        for number, state in enumerate(states)
    ]


async def measure(emulator_url: str, model: Path, count: int) -> Memory:
    """Run *count* tickets through a worker, and look at its memory now and then."""
    rss: dict[int, int] = {}
    parked = evicted = 0.0
    flags = ("--parked-mebibytes", str(PARKED_MEBIBYTES), "--context-tokens", "1024")
    async with open_whole(emulator_url, model, *flags) as whole:
        finished = 0
        async for _ in whole.finish(tickets(count)):
            finished += 1
            if finished % _EVERY == 0:
                rss[finished] = whole.rss_bytes()
            if finished == FILLED:
                figures = await whole.figures()
                parked = figures.sum("decision_parked_bytes")
                evicted = figures.sum("decision_trunk_evictions_total")
    return Memory(rss, int(parked), int(evicted))
