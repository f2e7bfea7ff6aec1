"""Try the useful ways to share a machine's cores among contexts, and measure each."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from worker.engine.llama import Model
from worker.engine.options import FlashAttention, KvType, ModelOptions
from worker.engine.pool import Pool
from worker.engine.workload import Shape, synthetic_ticket, tokens_per_second
from worker.errors import CannotRun

_SHAPE = Shape(state=200, questions=4, words=40)
_TICKETS_EACH = 2  # for each context, so that none is idle
_CONTEXT_TOKENS = 2048
_LEAST_ROUNDS = 2
_KERNELS = (
    (FlashAttention.AUTO, KvType.F16),
    (FlashAttention.OFF, KvType.F16),
    (FlashAttention.ON, KvType.Q8_0),
)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a model.

    Attributes:
        contexts: how many.
        threads: of each.
    """

    contexts: int
    threads: int
    flash_attention: FlashAttention
    kv_type: KvType

    def flags(self) -> str:
        """Return the settings that choose this way."""
        return (
            f"--contexts {self.contexts} --threads {self.threads}"
            f" --flash-attention {self.flash_attention} --kv-type {self.kv_type}"
        )


def ways(cores: int) -> Iterator[Way]:
    """Yield every way worth trying on *cores* cores."""
    for contexts in range(1, cores + 1):
        if cores % contexts == 0:
            for flash_attention, kv_type in _KERNELS:
                yield Way(contexts, cores // contexts, flash_attention, kv_type)


def measure_ways(
    model: Model, options: ModelOptions, candidates: Sequence[Way], seconds: float
) -> Iterator[dict[Way, float]]:
    """Measure all ways in turn, round after round, so that a busy minute hits them all.

    Args:
        model: already loaded.
        options: of the contexts, as far as a way does not say.
        candidates: what to try; ways that cannot be taken are left out.
        seconds: how long to go on; every way is measured twice at least.

    Yields:
        After each measurement the medians so far, in evaluated tokens per second.
    """
    speeds: dict[Way, list[float]] = {}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < _LEAST_ROUNDS or time.perf_counter() < end:
        for way in candidates:
            speed = _measure(model, options, way)
            if speed is not None:
                speeds.setdefault(way, []).append(speed)
            yield {way: statistics.median(found) for way, found in speeds.items()}
        rounds += 1


def _measure(model: Model, options: ModelOptions, way: Way) -> float | None:
    """Return evaluated tokens per second; None when the way cannot be taken."""
    chosen = replace(
        options,
        context_tokens=_CONTEXT_TOKENS,
        threads=way.threads,
        flash_attention=way.flash_attention,
        kv_type=way.kv_type,
    )
    pool = Pool(model, chosen, contexts=way.contexts, max_waiting_tokens=1 << 30)
    try:
        pool.start()
    except CannotRun:
        return None
    try:
        tickets = [
            synthetic_ticket(_SHAPE, number) for number in range(way.contexts * _TICKETS_EACH)
        ]
        return asyncio.run(tokens_per_second(pool, tickets))
    finally:
        pool.close()
