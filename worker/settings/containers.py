"""What the variables of AWS's two neighbouring containers mean in settings of this worker.

``SM_LLAMA_CPP_*`` belong to the llama.cpp deep learning container, ``SEMIF_*`` to the SemIf sample:
an endpoint that was made for one of them starts this worker unchanged.
"""

from collections.abc import Mapping

_LLAMA, _SEMIF = "SM_LLAMA_CPP_", "SEMIF_"
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - where both containers listen

SETTINGS: Mapping[str, str] = {
    # A file goes before a folder: the later line wins.
    "SM_LLAMA_CPP_MODEL_DIR": "model",
    "SM_LLAMA_CPP_MODEL": "model",
    "SM_LLAMA_CPP_ALIAS": "model_name",
    "SM_LLAMA_CPP_PORT": "port",
    "SM_LLAMA_CPP_CTX_SIZE": "context_tokens",
    "SM_LLAMA_CPP_THREADS": "threads",
    "SM_LLAMA_CPP_PARALLEL": "contexts",
    "SM_LLAMA_CPP_UBATCH_SIZE": "ubatch_tokens",
    "SM_LLAMA_CPP_N_GPU_LAYERS": "gpu_layers",
    "SM_LLAMA_CPP_MAIN_GPU": "main_gpu",
    "SM_LLAMA_CPP_TENSOR_SPLIT": "tensor_split",
    "SM_LLAMA_CPP_FLASH_ATTN": "flash_attention",
    "SM_LLAMA_CPP_CACHE_TYPE_K": "kv_type",
    "SEMIF_MODEL_DIR": "model",
    "SEMIF_GGUF_PATH": "model",
    "SEMIF_PORT": "port",
    "SEMIF_MAX_TOKENS": "context_tokens",
    "SEMIF_THREADS": "threads",
    "SEMIF_N_GPU_LAYERS": "gpu_layers",
    "SEMIF_MAX_BODY_BYTES": "max_body_bytes",
}
"""The setting that a variable stands for."""


def from_containers(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return what these variables set: value and variable, by name of the setting."""
    found: dict[str, tuple[str, str]] = {}
    for variable, setting in SETTINGS.items():
        value = environment.get(variable)
        if value is None:
            continue
        found[setting] = (_as_ours(setting, value), variable)
        if setting == "port":
            found["host"] = (_EVERYWHERE, variable)
    return found


def ignored_by_us(environment: Mapping[str, str]) -> list[str]:
    """Return the variables of those containers that stand for no setting, sorted."""
    return sorted(
        name for name in environment if name.startswith((_LLAMA, _SEMIF)) and name not in SETTINGS
    )


def _as_ours(setting: str, value: str) -> str:
    if setting == "flash_attention":  # a bare flag there
        return {"true": "on", "": "on", "1": "on", "false": "off", "0": "off"}.get(
            value.lower(), value
        )
    return value
