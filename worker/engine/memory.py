"""How much memory a model needs, and how much there is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from worker.engine.options import KvType, ModelOptions

_KV_BYTES = {KvType.F32: 4.0, KvType.F16: 2.0, KvType.Q8_0: 34 / 32}
# Limit, usage, and the statistic that says how much of the usage is cache that can be dropped.
_CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "total_inactive_file",
    ),
)
# What llama.cpp needs beside weights, cache and activations; measured at 14 to 94 MB.
_FIXED_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that a model and its contexts will use, by what for."""

    weights_bytes: int
    cache_bytes: int
    scratch_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.weights_bytes + self.cache_bytes + self.scratch_bytes


def available_bytes() -> int:
    """Return the memory that can be had now: the machine's, or the container's if that is less."""
    available = int(psutil.virtual_memory().available)
    for limit_file, usage_file, cache in _CGROUP_FILES:
        try:
            limit = Path(limit_file).read_text().strip()
            usage = int(Path(usage_file).read_text())
            usage -= _statistic(Path(usage_file).with_name("memory.stat"), cache)
        except (OSError, ValueError):
            continue
        if limit.isdecimal():
            available = min(available, max(0, int(limit) - usage))
    return available


def _statistic(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def cache_bytes_per_token(metadata: Mapping[str, str], kv_type: KvType) -> float:
    """Return the bytes of keys and values of one cell, over all layers.

    Args:
        metadata: the GGUF's scalar metadata. Where heads differ between layers, or some layers
            have no cache, the figure is an upper bound.
        kv_type: how they are stored.
    """
    architecture = metadata.get("general.architecture", "")

    def number(key: str, default: int) -> int:
        value = metadata.get(f"{architecture}.{key}", "")
        return int(value) if value.isdecimal() else default

    heads = number("attention.head_count", 1)
    kv_heads = number("attention.head_count_kv", heads)
    per_head = number("embedding_length", 0) // max(heads, 1)
    width = number("attention.key_length", per_head) + number("attention.value_length", per_head)
    return number("block_count", 0) * kv_heads * width * _KV_BYTES[kv_type]


def estimate_memory(
    metadata: Mapping[str, str],
    *,
    weights_bytes: int,
    vocabulary_size: int,
    options: ModelOptions,
    contexts: int,
) -> MemoryEstimate:
    """Estimate what a model with *contexts* contexts uses."""
    architecture = metadata.get("general.architecture", "")
    width = int(metadata.get(f"{architecture}.embedding_length", "0") or 0)
    cells = options.context_tokens * cache_bytes_per_token(metadata, options.kv_type)
    activations = options.ubatch_tokens * width * 4 * 16
    outputs = vocabulary_size * 4 * (options.sequences + 2)  # logits of each, and copies
    return MemoryEstimate(
        weights_bytes=weights_bytes,
        cache_bytes=int(contexts * cells),
        scratch_bytes=contexts * (_FIXED_BYTES + activations + outputs),
    )


def in_words(count: float) -> str:
    """Return a number of bytes for people, such as ``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
