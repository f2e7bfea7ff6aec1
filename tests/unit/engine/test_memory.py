"""How much memory a model needs, and how much there is."""

from typing import Any

import psutil
import pytest

from worker.engine.memory import (
    MemoryEstimate,
    available_bytes,
    cache_bytes_per_token,
    estimate_memory,
    in_words,
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
    assert 1_000_000 + two.cache_bytes + two.scratch_bytes == two.total_bytes


def test_a_smaller_ubatch_needs_less() -> None:
    """Activations are those of the tokens that are computed at once."""
    smaller = estimate(options=ModelOptions(context_tokens=1000, threads=1, ubatch_tokens=256))

    assert estimate().scratch_bytes - smaller.scratch_bytes == 2 * 256 * 640 * 4 * 16


def test_there_is_memory() -> None:
    """What is available is something, and not more than the machine has."""
    assert 0 < available_bytes() <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536 * 1024, "2 MiB"),
        (2**30, "1.0 GiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (5000 * 2**30, "5000.0 GiB"),
    ],
)
def test_bytes_are_told_in_words(count: float, expected: str) -> None:
    """Messages for people say GiB, not eleven digits."""
    assert expected == in_words(count)
