"""Open pools, and look at them from outside without waiting for the clock."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.models import QUANTISED_OPTIONS
from worker.engine.llama import Context, Model
from worker.engine.options import Batching, ModelOptions
from worker.engine.pool import Pool


@contextmanager
def open_pool(
    model: Model,
    *,
    contexts: int = 1,
    threads: int = 1,
    options: ModelOptions = QUANTISED_OPTIONS,
    batching: Batching = Batching.EXACT,
    max_waiting_tokens: int = 1_000_000,
    max_parked_bytes: int = 0,
) -> Iterator[Pool]:
    """Start a pool, close it at the end."""
    pool = Pool(
        model,
        replace(options, threads=threads),
        contexts=contexts,
        batching=batching,
        max_waiting_tokens=max_waiting_tokens,
        max_parked_bytes=max_parked_bytes,
    )
    pool.start()
    try:
        yield pool
    finally:
        pool.close()


def contexts_of(pool: Pool) -> list[Context]:
    """Return a pool's contexts; to be touched only while it has nothing to do."""
    return [thread._context for thread in pool._threads if thread._context is not None]


def is_empty(pool: Pool) -> bool:
    """Return whether no context of an idle pool holds a cell."""
    while pool._joined:  # a context that joined leaves after the answer was given
        time.sleep(0)
    return all(context.is_empty() for context in contexts_of(pool))


async def until(condition: Callable[[], bool]) -> None:
    """Return once *condition* holds; the test's timeout is the limit."""
    while not condition():  # noqa: ASYNC110 - a context's thread sets no event for us
        await asyncio.sleep(0)


async def until_busy(pool: Pool, contexts: int = 1) -> None:
    """Return once that many contexts are evaluating."""
    await until(lambda: len(pool._schedule.running) == contexts)


async def until_waiting(pool: Pool, works: int) -> None:
    """Return once that many evaluations wait at the door."""
    await until(lambda: len(pool._schedule) == works)
