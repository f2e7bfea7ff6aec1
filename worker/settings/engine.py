"""How the model is run, and what of it is kept."""

from typing import Literal

from pydantic import BaseModel

from worker.settings.fields import Folder, setting_of

setting = setting_of("Engine")


class EngineSettings(BaseModel):
    """How the model is run, and what of it is kept."""

    contexts: int = setting(
        0,
        "llama.cpp contexts; 0: one per core, just one on a GPU or with batching packed",
        ge=0,
        le=64,
    )
    threads: int = setting(0, "threads of each context; 0: share the cores", ge=0, le=512)
    context_tokens: int = setting(
        0, "longest prompt; 0: what model and memory allow, up to 16384", ge=0, le=1 << 24
    )
    batching: Literal["exact", "packed"] = setting(
        "exact",
        "exact: the same bits whatever is evaluated beside; packed: questions and tickets in one"
        " call, for GPUs",
    )
    batch_tokens: int = setting(
        2048, "tokens of one call with batching packed; exact takes 512", ge=64, le=65_536
    )
    ubatch_tokens: int = setting(
        512, "tokens computed at once; another number, other last bits", ge=32, le=65_536
    )
    sequences: int = setting(
        64,
        "of a context with batching packed: each trunk and each question in it takes one, saving"
        " one more",
        ge=3,
        le=256,
    )
    gpu_layers: int = setting(0, "layers on the GPU; -1: all", ge=-1)
    main_gpu: int = setting(0, "GPU for what is not split", ge=0)
    tensor_split: str | None = setting(
        None,
        "share of the model for each GPU, such as 3,1 [llama.cpp decides]",
        pattern=r"^\d+(\.\d+)?(,\d+(\.\d+)?)*$",
    )
    flash_attention: Literal["auto", "on", "off"] = setting(
        "auto", "use the fused attention kernel"
    )
    kv_type: Literal["f32", "f16", "q8_0"] = setting("f16", "how keys and values are stored")
    load_mode: Literal["auto", "none", "mmap", "mlock"] = setting("auto", "how weights are loaded")
    max_waiting_tokens: int = setting(262_144, "tokens that may wait for a context", ge=1)
    parked_mebibytes: int = setting(
        512, "host memory for finished trunks, to be reused; 0: none", ge=0
    )
    spill_dir: Folder | None = setting(
        None, "folder for finished trunks (customer text!) that memory has no room for"
    )
    spill_mebibytes: int = setting(4096, "the most that folder may take", ge=1)
