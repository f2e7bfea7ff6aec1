"""The real worker, but for an engine that states of tickets can slow down, break or kill.

llama.cpp is a native library: the worst a ticket can do is end the process without a word. No
ticket is known that does, so this entry point, which only tests have, does it on a marker.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from tests.soak.tickets import BREAK, KILL, SLOW
from worker.brain import Brain, open_brain
from worker.cli.options import read_settings
from worker.cli.run import aws_connection, run_process
from worker.decision.text import PromptText
from worker.errors import EngineFailed, WorkerError
from worker.ports import Engine, Evaluation, Lane, Reply
from worker.settings import Settings

SLOW_SECONDS = "SOAK_SLOW_SECONDS"


@dataclass(frozen=True)
class FaultyEngine:
    """An engine with the faults that a state names.

    Attributes:
        engine: the real one.
        slow_seconds: how long a slow ticket takes.
    """

    engine: Engine
    slow_seconds: float

    async def score(
        self, evaluation: Evaluation, lane: Lane, deadline: float | None = None
    ) -> Reply:
        await self._meet(evaluation)
        return await self.engine.score(evaluation, lane, deadline)

    async def score_all(
        self, evaluations: Sequence[Evaluation], lane: Lane, deadline: float | None = None
    ) -> tuple[Reply, ...]:
        for evaluation in evaluations:
            await self._meet(evaluation)
        return await self.engine.score_all(evaluations, lane, deadline)

    async def measure(self, prompts: Sequence[PromptText]) -> Sequence[int]:
        return await self.engine.measure(prompts)

    def check_room(self, lane: Lane, deadline: float | None = None) -> None:
        self.engine.check_room(lane, deadline)

    def stalled_seconds(self) -> float:
        return self.engine.stalled_seconds()

    @property
    def waiting_tokens(self) -> int:
        return self.engine.waiting_tokens

    async def _meet(self, evaluation: Evaluation) -> None:
        text = "".join(piece.text for piece in evaluation.branches[0].prompt)
        if KILL in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if BREAK in text:
            raise EngineFailed("broken by a poison ticket")
        if SLOW in text:
            await asyncio.sleep(self.slow_seconds)


@asynccontextmanager
async def open_faulty_brain(settings: Settings) -> AsyncIterator[Brain]:
    """Open the real brain, and put the faults before its engine."""
    async with open_brain(settings) as brain:
        engine = FaultyEngine(brain.evaluator.engine, float(os.environ[SLOW_SECONDS]))
        yield replace(brain, evaluator=replace(brain.evaluator, engine=engine))


def main() -> None:
    """Run; settings come from the environment."""
    try:
        settings = read_settings({})
        code = asyncio.run(run_process(settings, aws_connection(), open_faulty_brain))
    except WorkerError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    sys.exit(int(code))


if __name__ == "__main__":
    main()
