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


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """One model's options.

    Attributes:
        context_tokens: cells of each context: trunk and longest branch must fit together.
        batch_tokens: the most tokens of one call.
        ubatch_tokens: the most tokens llama.cpp computes at once.
        threads: threads of each context.
        gpu_layers: layers to offload; -1 is all of them.
        load_mode: ``auto``, ``none``, ``mmap`` or ``mlock``, as llama.cpp names them.
    """

    context_tokens: int
    threads: int
    batch_tokens: int = 512
    ubatch_tokens: int = 512
    gpu_layers: int = 0
    flash_attention: FlashAttention = FlashAttention.AUTO
    kv_type: KvType = KvType.F16
    load_mode: Literal["auto", "none", "mmap", "mlock"] = "auto"
