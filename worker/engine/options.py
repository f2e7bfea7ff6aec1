"""How a model is loaded and its contexts are made, in llama.cpp's words."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class FlashAttention(StrEnum):
    """Whether attention is computed by the fused kernel."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class KvType(StrEnum):
    """How keys and values are stored."""

    F32 = "f32"
    F16 = "f16"
    Q8_0 = "q8_0"


class Batching(StrEnum):
    """What shares a llama.cpp call."""

    EXACT = "exact"
    """Nothing: the bits of an answer depend on its own prompt only."""
    PACKED = "packed"
    """Questions and tickets, as many as fit."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """One model's options.

    Attributes:
        context_tokens: cells of each context: trunk and longest branch must fit together.
        batch_tokens: the most tokens of one call.
        ubatch_tokens: the most tokens llama.cpp computes at once.
        sequences: that a context tells apart, at most 256.
        threads: threads of each context.
        gpu_layers: layers to offload; -1 is all of them.
        main_gpu: the device for what is not split.
        tensor_split: each device's share of the model; empty lets llama.cpp decide.
        load_mode: ``auto``, ``none``, ``mmap`` or ``mlock``, as llama.cpp names them.
    """

    context_tokens: int
    threads: int
    batch_tokens: int = 512
    ubatch_tokens: int = 512
    sequences: int = 2
    gpu_layers: int = 0
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    flash_attention: FlashAttention = FlashAttention.AUTO
    kv_type: KvType = KvType.F16
    load_mode: Literal["auto", "none", "mmap", "mlock"] = "auto"
