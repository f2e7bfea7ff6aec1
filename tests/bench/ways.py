"""The ways to evaluate a ticket that are measured against each other, on one loaded model."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Self

from worker.engine.exact import TRUNK
from worker.engine.llama import Context, Model
from worker.engine.options import Batching, ModelOptions
from worker.engine.pool import Pool
from worker.engine.workload import Shape, synthetic_ticket, tokens_per_second

PROMPT_TOKENS = 512
CONTEXT_TOKENS = 8192
PARKED = Shape(1300, 1, 40)
_ASKED_ALONE = 2
"""Questions that are measured as prompts of their own; the others take as long."""


def options(threads: int) -> ModelOptions:
    """Return what a context is made with."""
    return ModelOptions(context_tokens=CONTEXT_TOKENS, threads=threads)


@contextmanager
def _running(pool: Pool) -> Iterator[Pool]:
    pool.start()
    try:
        yield pool
    finally:
        pool.close()


class Ways:
    """One model on this machine; use it in a ``with`` statement.

    Args:
        model: already loaded.
        cores: how many threads evaluate in all.

    Attributes:
        pools: by name: a context for each core, one context with all threads, shared calls.
    """

    def __init__(self, model: Model, cores: int) -> None:
        self._model = model
        self._cores = cores
        self._number = 0
        self._handles = ExitStack()
        packed = replace(options(cores), batch_tokens=2048, sequences=64)
        self.pools = {
            "pool": self._pool(cores, options(1)),
            "one context": self._pool(1, options(cores)),
            "packed": self._pool(1, packed, Batching.PACKED),
        }

    def _pool(
        self, contexts: int, made_with: ModelOptions, batching: Batching = Batching.EXACT
    ) -> Pool:
        return Pool(
            self._model,
            made_with,
            contexts=contexts,
            batching=batching,
            max_waiting_tokens=10**9,
        )

    def __enter__(self) -> Self:
        for pool in self.pools.values():
            self._handles.enter_context(_running(pool))
        return self

    def __exit__(self, *_: object) -> None:
        self._handles.close()

    def limit(self) -> float:
        """Return tokens per second of a plain prompt on one context with all threads."""
        with Context(self._model, options(self._cores)) as context:
            tokens = list(range(1000, 1000 + PROMPT_TOKENS))
            started_at = time.perf_counter()
            context.decode(tokens, position=0, sequence=TRUNK, read=True)
            context.read([0])
            return PROMPT_TOKENS / (time.perf_counter() - started_at)

    def speed(self, name: str, shape: Shape, tickets: int) -> float:
        """Return evaluated tokens per second of a pool with so many tickets at hand."""
        evaluations = [synthetic_ticket(shape, self._next()) for _ in range(tickets)]
        return asyncio.run(tokens_per_second(self.pools[name], evaluations))

    def one_by_one(self, shape: Shape) -> float:
        """Return useful tokens per second when each question is a prompt of its own."""
        with Context(self._model, options(self._cores)) as context:
            ticket = synthetic_ticket(shape, self._next())
            prompts = [self._model.encode(branch.prompt) for branch in ticket.branches]
            measured = prompts[:_ASKED_ALONE]
            started_at = time.perf_counter()
            for prompt in measured:
                for start in range(0, len(prompt), PROMPT_TOKENS):
                    chunk = prompt[start : start + PROMPT_TOKENS]
                    context.decode(chunk, position=start, sequence=TRUNK, read=True)
                context.read([0])
                context.remove(TRUNK)
            seconds = (time.perf_counter() - started_at) * len(prompts) / len(measured)
        return (shape.state + shape.questions * shape.words) / seconds

    def restoring(self) -> float:
        """Return the seconds to restore a parked trunk ÷ the seconds to evaluate it."""
        with Context(self._model, options(self._cores)) as context:
            tokens = self._model.encode(synthetic_ticket(PARKED, self._next()).branches[0].prompt)
            started_at = time.perf_counter()
            for start in range(0, PARKED.state, PROMPT_TOKENS):
                chunk = tokens[start : start + PROMPT_TOKENS]
                context.decode(chunk, position=start, sequence=TRUNK)
            evaluated = time.perf_counter() - started_at
            state = context.save()
            context.remove(TRUNK)
            started_at = time.perf_counter()
            context.restore(state)
            restored = time.perf_counter() - started_at
        return restored / evaluated

    def _next(self) -> int:
        self._number += 1
        return self._number
