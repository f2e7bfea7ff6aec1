"""A GGUF's weights and vocabulary."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import llama_cpp.llama_cpp as native

from worker.decision.text import PromptText
from worker.engine.calls import NativeError
from worker.engine.llama.backend import Handle, native_log, start_backend
from worker.engine.llama.context import Context
from worker.engine.options import ModelOptions
from worker.engine.tokenizer import ControlToken, Tokenizer
from worker.errors import CannotRun


class Model(Handle):
    """A GGUF's weights and vocabulary; load with :meth:`load`, close when every context is closed.

    Attributes:
        handle: llama.cpp's pointer, for contexts.
        metadata: the GGUF's scalar metadata, as text by key.
        tokenizer: encodes prompts.
        vocabulary_size: number of tokens.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._tokens = _TokenBuffer()
        self._vocabulary = native.llama_model_get_vocab(handle)
        self.metadata = dict(self._read_metadata())
        self.vocabulary_size = native.llama_vocab_n_tokens(self._vocabulary)
        self.tokenizer = Tokenizer(self._tokenize, self._control_tokens(), self._first_tokens())

    @classmethod
    def load(
        cls, path: Path, options: ModelOptions, given_up: threading.Event | None = None
    ) -> Self:
        """Load a model.

        Args:
            path: a GGUF file.
            options: where its weights go.
            given_up: once set, loading ends.

        Raises:
            CannotRun: with llama.cpp's reason, or because it was given up.
        """
        start_backend()
        if options.gpu_layers and not native.llama_supports_gpu_offload():
            raise CannotRun(
                f"gpu_layers is {options.gpu_layers}, but this build of llama.cpp has no GPU"
                " backend; rebuild with CMAKE_ARGS (such as -DGGML_CUDA=on) or set it to 0"
            )
        parameters = native.llama_model_default_params()
        parameters.n_gpu_layers = options.gpu_layers
        parameters.main_gpu = options.main_gpu
        shares = _shares(options.tensor_split)  # must outlive the call
        parameters.tensor_split = shares
        parameters.load_mode = native.llama_load_mode_from_str(options.load_mode.encode())
        goes_on = native.llama_progress_callback(
            lambda _, __: given_up is None or not given_up.is_set()
        )
        parameters.progress_callback = goes_on
        native_log.clear()
        handle = native.llama_model_load_from_file(os.fsencode(path), parameters)
        if not handle:
            raise CannotRun(f"llama.cpp cannot load {path}: {native_log.explanation()}")
        return cls(handle)

    def close(self) -> None:
        """Free the weights."""
        native.llama_model_free(self.handle)

    def make_context(self, options: ModelOptions, abort: Callable[[], bool]) -> Context:
        """Make a context, which must be closed before the model; see :class:`Context`.

        Raises:
            CannotRun: llama.cpp cannot.
        """
        return Context(self, options, abort)

    @property
    def architecture(self) -> str:
        """The GGUF's ``general.architecture``."""
        return self.metadata.get("general.architecture", "unknown")

    @property
    def quantization(self) -> str:
        """The GGUF's file type in words, such as ``Q4_K - Medium``."""
        name: bytes = native.llama_ftype_name(native.llama_model_ftype(self.handle))
        return name.decode()

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors together."""
        return int(native.llama_model_size(self.handle))

    @property
    def training_context_tokens(self) -> int:
        """The longest context the model was trained on."""
        return int(native.llama_model_n_ctx_train(self.handle))

    @property
    def chat_template(self) -> str | None:
        """The Jinja source of the GGUF's chat template, when it has one."""
        template = native.llama_model_chat_template(self.handle, None)
        return template.decode() if template else None

    @property
    def decision_type(self) -> str | None:
        """What llama.cpp calls the model's way of deciding, when it has one of its own."""
        return self.metadata.get(f"{self.architecture}.decision.type")

    @property
    def is_decoder(self) -> bool:
        """Whether the model predicts a next token from what came before."""
        return bool(native.llama_model_has_decoder(self.handle)) and not (
            native.llama_model_has_encoder(self.handle)
            or native.llama_model_is_diffusion(self.handle)
        )

    @property
    def is_recurrent(self) -> bool:
        """Whether all layers keep one state instead of cells for each token."""
        return bool(native.llama_model_is_recurrent(self.handle))

    @property
    def is_divisible(self) -> bool:
        """Whether a sequence can be cut back; recurrent and hybrid memories cannot."""
        return not (
            native.llama_model_is_recurrent(self.handle)
            or native.llama_model_is_hybrid(self.handle)
        )

    @property
    def window_tokens(self) -> int:
        """How far layers with a sliding window see; 0 when there are none."""
        return int(native.llama_model_n_swa(self.handle))

    def bos_text(self) -> str:
        """Return the spelling of the beginning-of-sequence token, or nothing."""
        return self._spelling(native.llama_vocab_bos(self._vocabulary))

    def eos_text(self) -> str:
        """Return the spelling of the end-of-sequence token, or nothing."""
        return self._spelling(native.llama_vocab_eos(self._vocabulary))

    def encode(self, prompt: PromptText) -> list[int]:
        """Return the token ids of a full prompt."""
        return self.tokenizer.encode(prompt)

    def text(self, token: int) -> str:
        """Return the text that a token stands for."""
        buffer = ctypes.create_string_buffer(256)
        length = native.llama_token_to_piece(self._vocabulary, token, buffer, 256, 0, True)
        return buffer.raw[: max(length, 0)].decode("utf-8", "replace")

    def _spelling(self, token: int) -> str:
        if not 0 <= token < self.vocabulary_size:
            return ""
        spelling: bytes = native.llama_vocab_get_text(self._vocabulary, token)
        return spelling.decode("utf-8", "replace")

    def _control_tokens(self) -> dict[str, ControlToken]:
        found = {}
        control = native.LLAMA_TOKEN_ATTR_CONTROL | native.LLAMA_TOKEN_ATTR_UNKNOWN
        for token in range(self.vocabulary_size):
            attributes = native.llama_vocab_get_attr(self._vocabulary, token)
            if attributes & control and (spelling := self._spelling(token)):
                found[spelling] = ControlToken(
                    token,
                    strips_before=bool(attributes & native.LLAMA_TOKEN_ATTR_LSTRIP),
                    strips_after=bool(attributes & native.LLAMA_TOKEN_ATTR_RSTRIP),
                )
        return found

    def _first_tokens(self) -> tuple[int, ...]:
        # The template of a decision model writes the BOS token itself, or does without.
        adds = native.llama_vocab_get_add_bos(self._vocabulary) and self.decision_type is None
        return (native.llama_vocab_bos(self._vocabulary),) if adds else ()

    def _tokenize(self, text: str) -> list[int]:
        data = text.encode()
        capacity = len(data) + 8  # a token stands for at least one byte, plus a prefix space
        tokens = self._tokens.of(capacity)
        count = native.llama_tokenize(
            self._vocabulary, data, len(data), tokens, capacity, False, False
        )
        if count < 0:
            raise NativeError(f"llama.cpp cannot tokenise {len(data)} bytes of text")
        found: list[int] = tokens[:count]
        return found

    def _read_metadata(self) -> Iterator[tuple[str, str]]:
        for index in range(native.llama_model_meta_count(self.handle)):
            yield (
                _grown(native.llama_model_meta_key_by_index, self.handle, index),
                _grown(native.llama_model_meta_val_str_by_index, self.handle, index),
            )


class _TokenBuffer(threading.local):
    """Room for the tokens of one text, kept for the next; each thread has its own."""

    def __init__(self) -> None:
        self._tokens: Any = (native.llama_token * 4096)()

    def of(self, capacity: int) -> Any:
        """Return an array of at least *capacity* tokens."""
        if len(self._tokens) < capacity:
            self._tokens = (native.llama_token * capacity)()
        return self._tokens


def _shares(tensor_split: tuple[float, ...]) -> Any:
    """Return each device's share as llama.cpp reads it: one for every device there can be.

    Raises:
        CannotRun: there cannot be so many devices.
    """
    if not tensor_split:
        return None
    most = native.llama_max_devices()
    if len(tensor_split) > most:
        raise CannotRun(
            f"tensor_split names {len(tensor_split)} devices; this build has at most {most}"
        )
    return (ctypes.c_float * most)(*tensor_split)


def _grown(read: Callable[..., int], handle: Any, index: int) -> str:
    """Read a string of unknown length with one of llama.cpp's snprintf-like calls."""
    buffer = ctypes.create_string_buffer(256)
    length = read(handle, index, buffer, len(buffer))
    if length >= len(buffer):
        buffer = ctypes.create_string_buffer(length + 1)
        read(handle, index, buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace")
