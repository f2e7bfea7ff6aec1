"""Choose contexts, threads and context size where the settings leave them to us. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from worker.engine.estimate import MemoryEstimate, estimate_memory
from worker.engine.memory import in_words
from worker.engine.options import ModelOptions
from worker.errors import CannotRun

AUTO = 0
"""A size of zero is chosen here."""

_USUAL_CONTEXT_TOKENS = 16_384
_SMALLEST_CONTEXT_TOKENS = 2_048
# Memory that is left for everything else: the event loop, AWS clients, the operating system.
_LEFT_FREE = 0.1


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to share out."""

    cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What sizing needs to know of a loaded model."""

    metadata: Mapping[str, str]
    weights_bytes: int
    vocabulary_size: int
    training_context_tokens: int


@dataclass(frozen=True, slots=True)
class Size:
    """What was chosen, and what it needs."""

    options: ModelOptions
    contexts: int
    memory: MemoryEstimate


def choose_size(
    options: ModelOptions,
    contexts: int,
    model: ModelFacts,
    machine: Machine,
    *,
    has_callers: bool = False,
) -> Size:
    """Fill in what *options* and *contexts* leave at AUTO.

    Several contexts with one thread each evaluate 11 to 16 % more tokens per second than one
    context with all threads, and answer with the same bits; a lone ticket borrows the threads of
    idle contexts. A GPU is not shared out like cores: with one there is one context, unless more
    are asked for. Its memory is llama.cpp's business, which refuses what does not fit.

    Args:
        options: ``context_tokens`` and ``threads`` may be AUTO.
        contexts: may be AUTO.
        model: the model that is already loaded; its weights are not counted again.
        machine: memory that is free once the weights are loaded, and physical cores.
        has_callers: whether tickets are set aside for callers.

    Raises:
        CannotRun: what is asked for does not fit into memory.
    """
    is_on_gpu = options.gpu_layers != 0
    chosen_contexts = contexts or max(
        1, 0 if is_on_gpu else machine.cores // (options.threads or 1)
    )
    tokens = options.context_tokens or min(model.training_context_tokens, _USUAL_CONTEXT_TOKENS)
    budget = int(machine.memory_bytes * (1 - _LEFT_FREE))
    while True:
        threads = options.threads or max(1, machine.cores // chosen_contexts)
        chosen = replace(options, context_tokens=tokens, threads=threads)
        size = _size(chosen, chosen_contexts, model, has_callers=has_callers)
        needed = size.memory.beside_weights_bytes
        if needed <= budget:
            return size
        if options.context_tokens == AUTO and tokens > _SMALLEST_CONTEXT_TOKENS:
            tokens = max(tokens // 2, _SMALLEST_CONTEXT_TOKENS)
        elif contexts == AUTO and chosen_contexts > 1:
            chosen_contexts -= 1
        else:
            raise CannotRun(
                f"{chosen_contexts} contexts of {tokens} tokens need {in_words(needed)} of memory"
                f" beside the weights, {in_words(budget)} are free; set fewer contexts or"
                f" context_tokens{', or sequences' if size.memory.states_bytes else ''}"
            )


def _size(options: ModelOptions, contexts: int, model: ModelFacts, *, has_callers: bool) -> Size:
    # Each context may set aside what it holds for callers; else idle contexts join a lone ticket.
    saved = contexts if has_callers else min(1, contexts - 1)
    memory = estimate_memory(
        model.metadata,
        weights_bytes=model.weights_bytes,
        vocabulary_size=model.vocabulary_size,
        options=options,
        contexts=contexts,
        saved_contexts=saved,
    )
    return Size(options, contexts, memory)
