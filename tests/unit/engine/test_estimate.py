"""How much memory a model needs."""

from dataclasses import replace
from typing import Any

import pytest

from worker.engine.estimate import (
    MemoryEstimate,
    cache_bytes_per_token,
    estimate_memory,
    gpu_share,
    state_bytes_per_sequence,
)
from worker.engine.options import KvType, ModelOptions

METADATA = {
    "general.architecture": "gemma3",
    "gemma3.block_count": "18",
    "gemma3.embedding_length": "640",
    "gemma3.attention.head_count": "4",
    "gemma3.attention.head_count_kv": "1",
    "gemma3.attention.key_length": "256",
    "gemma3.attention.value_length": "256",
}


@pytest.mark.parametrize(
    ("kv_type", "expected"),
    [(KvType.F32, 36_864), (KvType.F16, 18_432), (KvType.Q8_0, 9792)],
)
def test_a_cell_holds_keys_and_values_of_all_layers(kv_type: KvType, expected: int) -> None:
    """18 layers × 1 head × (256 + 256) numbers, in the bytes of their type."""
    assert expected == cache_bytes_per_token(METADATA, kv_type)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"gemma3.attention.head_count_kv": ""}, 4 * 18_432),
        ({"gemma3.attention.head_count_kv": "[1, 4]"}, 4 * 18_432),
        ({"gemma3.attention.key_length": "", "gemma3.attention.value_length": ""}, 11_520),
        ({"gemma3.block_count": ""}, 0),
        ({"general.architecture": "unknown"}, 0),
    ],
)
def test_missing_metadata_is_estimated(changed: dict[str, str], expected: int) -> None:
    """Without key-value heads all heads count, without lengths the embedding is shared out."""
    metadata = {key: value for key, value in (METADATA | changed).items() if value}

    assert expected == cache_bytes_per_token(metadata, KvType.F16)


def estimate(**fields: Any) -> MemoryEstimate:
    values: dict[str, Any] = {
        "weights_bytes": 1_000_000,
        "vocabulary_size": 1000,
        "options": ModelOptions(context_tokens=1000, threads=1),
        "contexts": 2,
    }
    return estimate_memory(METADATA, **values | fields)


def test_contexts_cost_cache_and_scratch_and_weights_are_shared() -> None:
    """Each context has its own cache and activations, all of them read the same weights."""
    two, four = estimate(), estimate(contexts=4)

    assert 2 * 1000 * 18_432 == two.cache_bytes
    assert 2 * (64 * 2**20 + 512 * 640 * 4 * 16 + 1000 * 16) == two.scratch_bytes
    assert (2 * two.cache_bytes, 2 * two.scratch_bytes, two.weights_bytes) == (
        four.cache_bytes,
        four.scratch_bytes,
        four.weights_bytes,
    )
    assert 1_000_000 + two.cache_bytes + two.scratch_bytes == two.host_bytes


def test_a_smaller_ubatch_needs_less() -> None:
    """Activations are those of the tokens that are computed at once."""
    smaller = estimate(options=ModelOptions(context_tokens=1000, threads=1, ubatch_tokens=256))

    assert estimate().scratch_bytes - smaller.scratch_bytes == 2 * 256 * 640 * 4 * 16


RECURRENT = {
    "general.architecture": "mamba2",
    "mamba2.block_count": "4",
    "mamba2.embedding_length": "64",
    "mamba2.attention.head_count": "0",
    "mamba2.ssm.conv_kernel": "4",
    "mamba2.ssm.group_count": "1",
    "mamba2.ssm.inner_size": "128",
    "mamba2.ssm.state_size": "16",
}
STATE = 40_448
"""Measured: of these numbers llama.cpp saves 40,572 bytes for a sequence of any length."""


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (METADATA, 0),
        (RECURRENT, STATE),
        # Measured: 39,052 bytes beside the cells of a sequence.
        (
            {
                "general.architecture": "qwen35",
                "qwen35.block_count": "4",
                "qwen35.full_attention_interval": "2",
                "qwen35.ssm.conv_kernel": "4",
                "qwen35.ssm.group_count": "2",
                "qwen35.ssm.inner_size": "128",
                "qwen35.ssm.state_size": "32",
            },
            38_912,
        ),
        # Measured: half of it, since half of the layers are recurrent; the metadata does not say.
        (
            {
                "general.architecture": "lfm2",
                "lfm2.block_count": "4",
                "lfm2.embedding_length": "64",
                "lfm2.shortconv.l_cache": "3",
            },
            2048,
        ),
        (
            {
                "general.architecture": "rwkv7",
                "rwkv7.block_count": "2",
                "rwkv7.embedding_length": "128",
                "rwkv7.wkv.head_size": "64",
            },
            2 * (2 + 64) * 128 * 4,
        ),
    ],
)
def test_recurrent_layers_keep_a_state(metadata: dict[str, str], expected: int) -> None:
    """A sequence has a state of its own, as long as llama.cpp makes it."""
    assert expected == state_bytes_per_sequence(metadata)


def test_only_layers_with_attention_have_a_cache() -> None:
    """Where one layer in two has attention, a token takes half of the bytes."""
    mixed = METADATA | {"gemma3.full_attention_interval": "2"}

    assert 18_432 / 2 == cache_bytes_per_token(mixed, KvType.F16)


def test_every_sequence_of_every_context_has_a_state() -> None:
    """With 64 sequences recurrent models need 64 states for each context."""
    options = ModelOptions(context_tokens=1000, threads=1, sequences=64)
    found = estimate_memory(
        RECURRENT, weights_bytes=0, vocabulary_size=0, options=options, contexts=3
    )

    assert (0, 3 * 64 * STATE, 0) == (found.cache_bytes, found.states_bytes, found.saved_bytes)
    assert found.states_bytes + found.scratch_bytes == found.host_bytes


@pytest.mark.parametrize(("sequences", "trunks"), [(2, 1), (64, 32)])
def test_what_is_set_aside_is_counted(sequences: int, trunks: int) -> None:
    """Cells and states of contexts whose work may be set aside are counted once more."""
    options = ModelOptions(context_tokens=1000, threads=1, sequences=sequences)
    attention = estimate(options=options, saved_contexts=2)
    recurrent = estimate_memory(
        RECURRENT, weights_bytes=0, vocabulary_size=0, options=options, contexts=2, saved_contexts=1
    )

    assert 2 * 1000 * 18_432 == attention.saved_bytes
    assert trunks * STATE == recurrent.saved_bytes


@pytest.mark.parametrize(
    ("layers", "share"), [(0, 0.0), (-1, 1.0), (19, 1.0), (99, 1.0), (1, 1 / 19)]
)
def test_layers_on_a_gpu(layers: int, share: float) -> None:
    """Eighteen layers and the output may go to a GPU."""
    assert pytest.approx(share) == gpu_share(METADATA, layers)


def test_what_is_on_a_gpu_needs_no_memory_here() -> None:
    """Weights and cache leave with the layers; scratch and what is saved stay."""
    options = ModelOptions(context_tokens=1000, threads=1)
    here = estimate(options=options, saved_contexts=1)
    there = estimate(options=replace(options, gpu_layers=-1), saved_contexts=1)

    assert here.weights_bytes + here.cache_bytes == there.gpu_bytes
    assert here.scratch_bytes + here.saved_bytes == there.host_bytes
    assert (0, there.gpu_bytes) == (here.gpu_bytes, here.host_bytes - there.host_bytes)


def test_the_parts_are_named() -> None:
    """What is counted is said, and what is not there is left out."""
    assert "weights 977 KiB, cache 35 MiB, scratch 168 MiB" == estimate().parts()
    assert estimate(saved_contexts=1).parts().endswith("scratch 168 MiB, saved trunks 18 MiB")
