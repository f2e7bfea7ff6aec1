"""How much memory a model needs, from its metadata. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.engine.memory import in_words
from worker.engine.options import KvType, ModelOptions

_KV_BYTES = {KvType.F32: 4.0, KvType.F16: 2.0, KvType.Q8_0: 34 / 32}
# What llama.cpp needs beside weights, cache and activations; measured at 14 to 94 MB.
_FIXED_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that a model and its contexts will use at most, by what for.

    Parked trunks, which have a bound of their own, are not in it.

    Attributes:
        weights_bytes: of the model file.
        cache_bytes: keys and values of every cell.
        states_bytes: what recurrent layers keep for each sequence.
        scratch_bytes: activations and outputs.
        saved_bytes: trunks of work that was set aside, or that several contexts read.
        gpu_share: how much of weights, cache and states lies in the memory of GPUs, 0 to 1.
    """

    weights_bytes: int
    cache_bytes: int
    states_bytes: int
    scratch_bytes: int
    saved_bytes: int
    gpu_share: float

    @property
    def host_bytes(self) -> int:
        """All that is not in the memory of GPUs."""
        return int(self.weights_bytes * (1 - self.gpu_share)) + self.beside_weights_bytes

    @property
    def beside_weights_bytes(self) -> int:
        """All that is neither weights nor in the memory of GPUs."""
        shared = int((self.cache_bytes + self.states_bytes) * (1 - self.gpu_share))
        return shared + self.scratch_bytes + self.saved_bytes

    @property
    def gpu_bytes(self) -> int:
        """What is in the memory of GPUs."""
        shared = self.weights_bytes + self.cache_bytes + self.states_bytes
        return shared + self.scratch_bytes + self.saved_bytes - self.host_bytes

    def parts(self) -> str:
        """Say what is counted, wherever it lies."""
        parts = {
            "weights": self.weights_bytes,
            "cache": self.cache_bytes,
            "recurrent states": self.states_bytes,
            "scratch": self.scratch_bytes,
            "saved trunks": self.saved_bytes,
        }
        return ", ".join(f"{name} {in_words(count)}" for name, count in parts.items() if count)


def cache_bytes_per_token(metadata: Mapping[str, str], kv_type: KvType) -> float:
    """Return the bytes of keys and values of one cell, over all layers.

    Args:
        metadata: the GGUF's scalar metadata. Where heads differ between layers, or some layers
            have no cache, the figure is an upper bound.
        kv_type: how they are stored.
    """
    heads = _number(metadata, "attention.head_count", 1)
    kv_heads = _number(metadata, "attention.head_count_kv", heads)
    per_head = _number(metadata, "embedding_length") // max(heads, 1)
    width = _number(metadata, "attention.key_length", per_head) + _number(
        metadata, "attention.value_length", per_head
    )
    return _attention_layers(metadata) * kv_heads * width * _KV_BYTES[kv_type]


def state_bytes_per_sequence(metadata: Mapping[str, str]) -> int:
    """Return the bytes that recurrent layers keep for one sequence; 0 when there are none.

    From llama.cpp's ``n_embd_r`` and ``n_embd_s``, of which every recurrent layer has as many
    32-bit numbers. Where the metadata does not say which layers are recurrent, all of them count.

    Args:
        metadata: the GGUF's scalar metadata.
    """
    width = _number(metadata, "embedding_length")
    if head := _number(metadata, "wkv.head_size"):  # RWKV
        numbers = (_number(metadata, "token_shift_count", 2) + head) * width
    elif taps := _number(metadata, "shortconv.l_cache"):  # LFM2
        numbers = (taps - 1) * width
    else:  # Mamba, and delta nets such as Qwen3.5's
        inner, state = _number(metadata, "ssm.inner_size"), _number(metadata, "ssm.state_size")
        convolved = inner + 2 * _number(metadata, "ssm.group_count") * state
        numbers = (max(_number(metadata, "ssm.conv_kernel"), 1) - 1) * convolved + state * inner
    layers = _number(metadata, "block_count")
    if _number(metadata, _INTERVAL):
        layers -= _attention_layers(metadata)
    return layers * numbers * 4


def gpu_share(metadata: Mapping[str, str], gpu_layers: int) -> float:
    """Return how much of a model *gpu_layers* put on GPUs, 0 to 1; -1 is all of it."""
    layers = _number(metadata, "block_count") + 1  # llama.cpp counts the output as one
    return 1.0 if gpu_layers < 0 else min(1.0, gpu_layers / layers)


_INTERVAL = "full_attention_interval"


def _attention_layers(metadata: Mapping[str, str]) -> int:
    return _number(metadata, "block_count") // max(_number(metadata, _INTERVAL), 1)


def _number(metadata: Mapping[str, str], key: str, default: int = 0) -> int:
    value = metadata.get(f"{metadata.get('general.architecture', '')}.{key}", "")
    return int(value) if value.isdecimal() else default


def estimate_memory(
    metadata: Mapping[str, str],
    *,
    weights_bytes: int,
    vocabulary_size: int,
    options: ModelOptions,
    contexts: int,
    saved_contexts: int = 0,
) -> MemoryEstimate:
    """Estimate what a model with *contexts* contexts uses.

    Args:
        metadata: the GGUF's scalar metadata.
        weights_bytes: of the model file.
        vocabulary_size: number of tokens.
        options: of each context.
        contexts: how many.
        saved_contexts: what of so many contexts may be saved in host memory at once.
    """
    cells = options.context_tokens * cache_bytes_per_token(metadata, options.kv_type)
    state = state_bytes_per_sequence(metadata)
    trunks = options.sequences // 2  # each has a sequence, and one for a branch at least
    activations = options.ubatch_tokens * _number(metadata, "embedding_length") * 4 * 16
    outputs = vocabulary_size * 4 * (options.sequences + 2)  # logits of each, and copies
    return MemoryEstimate(
        weights_bytes=weights_bytes,
        cache_bytes=int(contexts * cells),
        states_bytes=contexts * options.sequences * state,
        scratch_bytes=contexts * (_FIXED_BYTES + activations + outputs),
        saved_bytes=int(saved_contexts * (cells + trunks * state)),
        gpu_share=gpu_share(metadata, options.gpu_layers),
    )
