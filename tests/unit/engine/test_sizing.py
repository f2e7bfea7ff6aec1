"""Contexts, threads and context size, where the settings leave them to us."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.estimate import estimate_memory
from worker.engine.options import FlashAttention, KvType, ModelOptions
from worker.engine.sizing import AUTO, Machine, ModelFacts, Size, choose_size
from worker.errors import CannotRun

GIB = 2**30

METADATA = {
    "general.architecture": "llama",
    "llama.block_count": "10",
    "llama.embedding_length": "1024",
    "llama.attention.head_count": "8",
}
# F16: 10 layers × 8 heads × (128 + 128) × 2 bytes: 40 KiB for a token, 640 MiB for 16384.


def choose(
    contexts: int = AUTO,
    *,
    cores: int = 4,
    memory_bytes: int = 100 * GIB,
    training: int = 32_768,
    has_callers: bool = False,
    **options: Any,
) -> Size:
    values = {"context_tokens": AUTO, "threads": AUTO}
    return choose_size(
        ModelOptions(**values | options),
        contexts,
        ModelFacts(METADATA, 5 * GIB, 1000, training),
        Machine(cores, memory_bytes),
        has_callers=has_callers,
    )


def chosen(size: Size) -> tuple[int, int, int]:
    return size.contexts, size.options.threads, size.options.context_tokens


@pytest.mark.parametrize(
    ("contexts", "threads", "expected"),
    [
        (AUTO, AUTO, (4, 1)),
        (1, AUTO, (1, 4)),
        (2, AUTO, (2, 2)),
        (3, AUTO, (3, 1)),
        (8, AUTO, (8, 1)),
        (AUTO, 2, (2, 2)),
        (AUTO, 3, (1, 3)),
        (AUTO, 16, (1, 16)),
        (3, 5, (3, 5)),
    ],
)
def test_the_cores_are_shared_out(contexts: int, threads: int, expected: tuple[int, int]) -> None:
    """One context with one thread per core, unless either is asked for; what is asked for stays."""
    assert (*expected, 16_384) == chosen(choose(contexts, threads=threads))


@pytest.mark.parametrize(
    ("asked", "training", "expected"),
    [
        (AUTO, 32_768, 16_384),
        (AUTO, 4096, 4096),
        (AUTO, 512, 512),
        (20_000, 32_768, 20_000),
        (20_000, 4096, 20_000),
    ],
)
def test_the_context_is_as_long_as_the_model_allows(
    asked: int, training: int, expected: int
) -> None:
    """At most 16384 tokens, at most what the model was trained for, or what is asked for."""
    assert expected == choose(context_tokens=asked, training=training).options.context_tokens


def test_a_shorter_context_comes_before_fewer_contexts() -> None:
    """With little memory the context is halved first, down to 2048 tokens."""
    assert (4, 1, 16_384) == chosen(choose(memory_bytes=4 * GIB))
    assert (4, 1, 8192) == chosen(choose(memory_bytes=5 * GIB // 2))
    assert (4, 1, 2048) == chosen(choose(memory_bytes=GIB))


def test_what_is_set_aside_for_callers_is_counted() -> None:
    """Where tickets and callers meet, every context may save what it holds."""
    assert (4, 1, 16_384) == chosen(choose(memory_bytes=6 * GIB, has_callers=True))
    assert (4, 1, 8192) == chosen(choose(memory_bytes=4 * GIB, has_callers=True))
    assert 0 == choose(1).memory.saved_bytes
    assert 640 * 2**20 == choose(1, has_callers=True).memory.saved_bytes


@pytest.mark.parametrize(("contexts", "expected"), [(AUTO, 1), (3, 3)])
def test_a_gpu_is_not_shared_out(contexts: int, expected: int) -> None:
    """On a GPU there is one context unless more are asked for, whatever the cores."""
    size = choose(contexts, gpu_layers=-1, cores=8, memory_bytes=2 * GIB)

    assert (expected, 16_384) == chosen(size)[::2]
    assert 8 // expected == size.options.threads
    assert size.memory.gpu_bytes > 5 * GIB


def test_too_many_recurrent_states() -> None:
    """Where states of sequences take the memory, the refusal says so."""
    metadata = {
        "general.architecture": "mamba2",
        "mamba2.block_count": "48",
        "mamba2.embedding_length": "2048",
        "mamba2.ssm.inner_size": "4096",
        "mamba2.ssm.state_size": "128",
    }
    options = ModelOptions(context_tokens=AUTO, threads=AUTO, sequences=64)
    facts = ModelFacts(metadata, GIB, 1000, 32_768)
    with pytest.raises(CannotRun, match="or sequences"):
        choose_size(options, 1, facts, Machine(4, 6 * GIB))  # 96 MiB each
    assert (
        64 * 96 * 2**20 == choose_size(options, 1, facts, Machine(4, 8 * GIB)).memory.states_bytes
    )


def test_then_there_are_fewer_contexts() -> None:
    """With less memory still, contexts are given up one by one, down to one."""
    assert (2, 2048) == chosen(choose(memory_bytes=GIB // 2))[::2]
    assert (1, 2048) == chosen(choose(memory_bytes=GIB // 4))[::2]


def test_no_core_is_left_idle() -> None:
    """Where memory allows only some contexts, they share all cores."""
    size = choose(cores=8, memory_bytes=GIB // 2)

    assert (2, 4) == (size.contexts, size.options.threads)


def test_the_context_is_not_shortened_below_the_smallest() -> None:
    """The context that is chosen has 2048 tokens at least, if the model has."""
    assert 2048 == choose(training=3000, memory_bytes=7 * GIB // 8).options.context_tokens


@pytest.mark.parametrize(
    ("contexts", "options", "memory_bytes"),
    [
        (AUTO, {}, GIB // 16),
        (4, {}, GIB // 2),
        (4, {"context_tokens": 16_384}, 2 * GIB),
        (1, {"context_tokens": 1_000_000}, 16 * GIB),
        (AUTO, {}, 0),
    ],
)
def test_what_does_not_fit_cannot_run(
    contexts: int, options: dict[str, int], memory_bytes: int
) -> None:
    """What is asked for is never shrunk in silence: the refusal has the numbers and the remedy."""
    with pytest.raises(CannotRun, match=r"of memory beside the weights, .* are free; set fewer"):
        choose(contexts, memory_bytes=memory_bytes, **options)


def test_the_refusal_names_what_was_tried() -> None:
    """Contexts and tokens of the last try are named."""
    with pytest.raises(CannotRun, match=r"^1 contexts of 1000000 tokens need 38.2 GiB"):
        choose(1, memory_bytes=16 * GIB, context_tokens=1_000_000)


def test_other_options_are_kept() -> None:
    """How the model is loaded and its cache is stored is the user's choice."""
    size = choose(
        gpu_layers=7,
        flash_attention=FlashAttention.OFF,
        kv_type=KvType.Q8_0,
        load_mode="mlock",
        context_tokens=1000,
        threads=3,
    )

    assert size.options == ModelOptions(
        context_tokens=1000,
        threads=3,
        gpu_layers=7,
        flash_attention=FlashAttention.OFF,
        kv_type=KvType.Q8_0,
        load_mode="mlock",
    )


@given(
    contexts=st.integers(0, 8),
    cores=st.integers(1, 64),
    memory_bytes=st.integers(0, 20 * GIB),
    training=st.integers(1, 100_000),
    context_tokens=st.just(AUTO) | st.integers(1, 50_000),
    threads=st.integers(0, 8),
)
def test_what_is_chosen_fits(
    contexts: int,
    cores: int,
    memory_bytes: int,
    training: int,
    context_tokens: int,
    threads: int,
) -> None:
    """Cache, scratch and a trunk that is shared take nine tenths of the free memory at most."""
    try:
        size = choose(
            contexts,
            cores=cores,
            memory_bytes=memory_bytes,
            training=training,
            context_tokens=context_tokens,
            threads=threads,
        )
    except CannotRun:
        return

    assert (
        size.memory.saved_bytes + size.memory.cache_bytes + size.memory.scratch_bytes
        <= 0.9 * memory_bytes
    )
    assert min(chosen(size)) >= 1
    assert contexts in (AUTO, size.contexts)
    assert threads in (AUTO, size.options.threads)
    assert context_tokens in (AUTO, size.options.context_tokens)
    assert size.memory == estimate_memory(
        METADATA,
        weights_bytes=5 * GIB,
        vocabulary_size=1000,
        options=size.options,
        contexts=size.contexts,
        saved_contexts=min(1, size.contexts - 1),
    )
