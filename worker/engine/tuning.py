"""Try the useful ways to run a model on this machine, and measure each."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from worker.engine.options import Batching, FlashAttention, KvType, ModelOptions
from worker.engine.plan import CHUNK_TOKENS
from worker.engine.pool import Pool
from worker.engine.workload import Shape, synthetic_ticket, tokens_per_second
from worker.errors import CannotRun

if TYPE_CHECKING:  # so that this can be tried without llama.cpp
    from worker.engine.llama import Model

_SHAPE = Shape(state=200, questions=4, words=40)
_TICKETS_EACH = 2  # for each context, so that none is idle
_CONTEXT_TOKENS = 2048
# Enough to fill the largest call more than once, and sequences for all of them.
_PACKED_TICKETS = 8
_PACKED_CONTEXT_TOKENS = 4096
_LEAST_ROUNDS = 2
_KERNELS = (
    (FlashAttention.AUTO, KvType.F16),
    (FlashAttention.OFF, KvType.F16),
    (FlashAttention.ON, KvType.Q8_0),
)
_SEQUENCES = (16, 64)
_CALL_TOKENS = (512, 2048)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a model.

    Attributes:
        contexts: how many.
        threads: of each.
        batching: what shares a call.
        sequences: of a context; exact evaluation has two.
        batch_tokens: of a call; exact evaluation has 512.
    """

    contexts: int
    threads: int
    flash_attention: FlashAttention
    kv_type: KvType
    batching: Batching = Batching.EXACT
    sequences: int = 2
    batch_tokens: int = CHUNK_TOKENS

    @property
    def is_packed(self) -> bool:
        """Whether tickets share calls."""
        return self.batching is Batching.PACKED

    def flags(self) -> str:
        """Return the settings that choose this way."""
        calls = f" --sequences {self.sequences} --batch-tokens {self.batch_tokens}"
        return (
            f"--batching {self.batching}{calls if self.is_packed else ''}"
            f" --contexts {self.contexts} --threads {self.threads}"
            f" --flash-attention {self.flash_attention} --kv-type {self.kv_type}"
        )


def ways(cores: int, batching: Batching = Batching.EXACT) -> Iterator[Way]:
    """Yield every way worth trying on *cores* cores.

    Exact evaluation: each division into contexts with each kernel. Packed: one context with all
    threads, each size of calls with the usual kernel, the other kernels with the largest size.
    """
    if batching is Batching.PACKED:
        usual, *others = _KERNELS
        for sequences, tokens in product(_SEQUENCES, _CALL_TOKENS):
            yield Way(1, cores, *usual, batching, sequences, tokens)
        for kernel in others:
            yield Way(1, cores, *kernel, batching, _SEQUENCES[-1], _CALL_TOKENS[-1])
        return
    for contexts in range(1, cores + 1):
        if cores % contexts == 0:
            for flash_attention, kv_type in _KERNELS:
                yield Way(contexts, cores // contexts, flash_attention, kv_type)


def measure_ways(
    model: "Model", options: ModelOptions, candidates: Sequence[Way], seconds: float
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


def _measure(model: "Model", options: ModelOptions, way: Way) -> float | None:
    """Return evaluated tokens per second; None when the way cannot be taken."""
    chosen = replace(
        options,
        context_tokens=_PACKED_CONTEXT_TOKENS if way.is_packed else _CONTEXT_TOKENS,
        threads=way.threads,
        sequences=way.sequences,
        batch_tokens=way.batch_tokens,
        flash_attention=way.flash_attention,
        kv_type=way.kv_type,
    )
    pool = Pool(
        model,
        chosen,
        contexts=way.contexts,
        batching=way.batching,
        max_waiting_tokens=1 << 30,
    )
    try:
        pool.start()
    except CannotRun:
        return None
    try:
        count = _PACKED_TICKETS if way.is_packed else way.contexts * _TICKETS_EACH
        tickets = [synthetic_ticket(_SHAPE, number) for number in range(count)]
        return asyncio.run(tokens_per_second(pool, tickets))
    finally:
        pool.close()
