"""Own llama.cpp's native handles: load, tokenise, decode, fork, read logits.

The only module that imports ``llama_cpp``. A model may be shared by threads; a context belongs to
one thread at a time. Every native return code is checked: some wrong arguments abort the process
inside llama.cpp, so they are refused here first.
"""

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import llama_cpp.llama_cpp as native
import numpy as np

from worker.decision.scores import Reading
from worker.decision.text import PromptText
from worker.engine.exact import FORK, TRUNK
from worker.engine.options import FlashAttention, KvType, ModelOptions
from worker.engine.tokenizer import ControlToken, Tokenizer
from worker.engine.trunks import State
from worker.errors import CannotRun, WorkerError

_SEQUENCES = 2

_KV_TYPES = {
    KvType.F32: native.GGML_TYPE_F32,
    KvType.F16: native.GGML_TYPE_F16,
    KvType.Q8_0: native.GGML_TYPE_Q8_0,
}
_FLASH_ATTENTION = {
    FlashAttention.AUTO: native.LLAMA_FLASH_ATTN_TYPE_AUTO,
    FlashAttention.ON: native.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    FlashAttention.OFF: native.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
_ERROR_LEVEL = 4  # GGML_LOG_LEVEL_ERROR


class NativeError(WorkerError):
    """llama.cpp refused a call; the context may be used on, its sequences must be removed."""


class Aborted(WorkerError):
    """A call was given up on request; the context may be used on, as above."""


class _NativeLog:
    """Keeps llama.cpp's last error lines, to explain a NULL that comes without a reason."""

    def __init__(self) -> None:
        self._errors: deque[str] = deque(maxlen=8)
        self._callback = native.llama_log_callback(self._receive)  # must outlive every call

    def install(self) -> None:
        native.llama_log_set(self._callback, ctypes.c_void_p(0))

    def clear(self) -> None:
        self._errors.clear()

    def explanation(self) -> str:
        """Return the first error since the last clear, which is the cause of those after it."""
        return self._errors[0] if self._errors else "llama.cpp gave no reason"

    def _receive(self, level: int, text: bytes, _: Any) -> None:
        line = text.decode("utf-8", "replace").strip()
        if level == _ERROR_LEVEL and line:
            self._errors.append(line)


_log = _NativeLog()
_start = threading.Lock()
_started = False


def start_backend() -> None:
    """Initialise llama.cpp, once per process; its log goes to us instead of stderr."""
    global _started  # llama.cpp's own state is process-wide too
    with _start:
        if not _started:
            _log.install()
            native.llama_backend_init()
            _started = True


@dataclass(frozen=True, slots=True)
class Build:
    """What this build of llama.cpp is."""

    llama_cpp_python: str
    llama_cpp: str
    system_info: str
    gpu_offload: bool


def describe_build() -> Build:
    """Return versions and the instruction sets this build uses on this machine."""
    start_backend()
    return Build(
        llama_cpp_python=version("llama-cpp-python"),
        llama_cpp=native.llama_version().decode(),
        system_info=native.llama_print_system_info().decode().strip(" |"),
        gpu_offload=native.llama_supports_gpu_offload(),
    )


class Model:
    """A GGUF's weights and vocabulary; load with :meth:`load`, close when every context is closed.

    Attributes:
        metadata: the GGUF's scalar metadata, as text by key.
        tokenizer: encodes prompts.
        vocabulary_size: number of tokens.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
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
        parameters.load_mode = native.llama_load_mode_from_str(options.load_mode.encode())
        goes_on = native.llama_progress_callback(
            lambda _, __: given_up is None or not given_up.is_set()
        )
        parameters.progress_callback = goes_on
        _log.clear()
        handle = native.llama_model_load_from_file(os.fsencode(path), parameters)
        if not handle:
            raise CannotRun(f"llama.cpp cannot load {path}: {_log.explanation()}")
        return cls(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the weights."""
        native.llama_model_free(self._handle)

    @property
    def architecture(self) -> str:
        """The GGUF's ``general.architecture``."""
        return self.metadata.get("general.architecture", "unknown")

    @property
    def quantization(self) -> str:
        """The GGUF's file type in words, such as ``Q4_K - Medium``."""
        name: bytes = native.llama_ftype_name(native.llama_model_ftype(self._handle))
        return name.decode()

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors together."""
        return int(native.llama_model_size(self._handle))

    @property
    def training_context_tokens(self) -> int:
        """The longest context the model was trained on."""
        return int(native.llama_model_n_ctx_train(self._handle))

    @property
    def chat_template(self) -> str | None:
        """The Jinja source of the GGUF's chat template, when it has one."""
        template = native.llama_model_chat_template(self._handle, None)
        return template.decode() if template else None

    @property
    def is_decoder(self) -> bool:
        """Whether the model predicts a next token from what came before."""
        return bool(native.llama_model_has_decoder(self._handle)) and not (
            native.llama_model_has_encoder(self._handle)
            or native.llama_model_is_diffusion(self._handle)
        )

    @property
    def is_divisible(self) -> bool:
        """Whether a sequence can be cut back; recurrent and hybrid memories cannot."""
        return not (
            native.llama_model_is_recurrent(self._handle)
            or native.llama_model_is_hybrid(self._handle)
        )

    @property
    def window_tokens(self) -> int:
        """How far layers with a sliding window see; 0 when there are none."""
        return int(native.llama_model_n_swa(self._handle))

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
        adds = native.llama_vocab_get_add_bos(self._vocabulary)
        return (native.llama_vocab_bos(self._vocabulary),) if adds else ()

    def _tokenize(self, text: str) -> list[int]:
        data = text.encode()
        capacity = len(data) + 8  # a token stands for at least one byte, plus a prefix space
        tokens = (native.llama_token * capacity)()
        count = native.llama_tokenize(
            self._vocabulary, data, len(data), tokens, capacity, False, False
        )
        if count < 0:
            raise NativeError(f"llama.cpp cannot tokenise {len(data)} bytes of text")
        return tokens[:count]

    def _read_metadata(self) -> Iterator[tuple[str, str]]:
        for index in range(native.llama_model_meta_count(self._handle)):
            yield (
                _grown(native.llama_model_meta_key_by_index, self._handle, index),
                _grown(native.llama_model_meta_val_str_by_index, self._handle, index),
            )


def _grown(read: Callable[..., int], handle: Any, index: int) -> str:
    """Read a string of unknown length with one of llama.cpp's snprintf-like calls."""
    buffer = ctypes.create_string_buffer(256)
    length = read(handle, index, buffer, len(buffer))
    if length >= len(buffer):
        buffer = ctypes.create_string_buffer(length + 1)
        read(handle, index, buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace")


class Context:
    """One stateful llama.cpp context with two sequences; belongs to one thread at a time.

    Args:
        model: whose weights to use; must outlive the context.
        options: sizes, threads and types.
        abort: asked by llama.cpp many times within a call; True gives the call up.

    Raises:
        CannotRun: llama.cpp cannot make the context; most often memory.
    """

    def __init__(
        self, model: Model, options: ModelOptions, abort: Callable[[], bool] = lambda: False
    ) -> None:
        self.cells = options.context_tokens
        self._vocabulary_size = model.vocabulary_size
        self._window_tokens = model.window_tokens
        self._handles = ExitStack()
        self._abort = native.ggml_abort_callback(lambda _: abort())  # must outlive the context
        _log.clear()
        self._handle = native.llama_init_from_model(
            model._handle,  # noqa: SLF001 - the two handles belong together
            self._parameters(options),
        )
        if not self._handle:
            raise CannotRun(
                f"llama.cpp cannot make a context of {options.context_tokens} tokens:"
                f" {_log.explanation()}"
            )
        self._handles.callback(native.llama_free, self._handle)
        self._memory = native.llama_get_memory(self._handle)
        # Not options.batch_tokens: llama.cpp cuts that to the context's size.
        self._batch = _Batch(native.llama_n_batch(self._handle))

    def _parameters(self, options: ModelOptions) -> Any:
        parameters = native.llama_context_default_params()
        parameters.n_ctx = options.context_tokens
        parameters.n_batch = options.batch_tokens
        parameters.n_ubatch = options.ubatch_tokens
        parameters.n_seq_max = _SEQUENCES
        parameters.n_outputs_max = _SEQUENCES
        parameters.n_threads = parameters.n_threads_batch = options.threads
        parameters.flash_attn_type = _FLASH_ATTENTION[options.flash_attention]
        parameters.type_k = parameters.type_v = _KV_TYPES[options.kv_type]
        parameters.kv_unified = True
        parameters.swa_full = True  # forks need cells that a pruned window no longer has
        parameters.no_perf = True
        parameters.abort_callback = self._abort
        return parameters

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the context."""
        self._handles.close()

    def decode(
        self, tokens: Sequence[int], *, position: int, sequence: int, read: bool = False
    ) -> None:
        """Decode *tokens* in one call, the first at *position* of *sequence*.

        Args:
            tokens: at most ``batch_tokens`` ids.
            position: where the sequence ends now.
            sequence: TRUNK or FORK.
            read: whether the last token's logits will be read.

        Raises:
            Aborted: the abort callback said so.
            NativeError: llama.cpp refused the call.
        """
        batch = self._batch.filled(tokens, position=position, sequence=sequence, read=read)
        code = native.llama_decode(self._handle, batch)
        if code == 2:
            raise Aborted("the call was given up")
        if code:
            raise NativeError(
                f"llama_decode returned {code} for {len(tokens)} tokens at {position}"
            )

    def read(self, label_tokens: Iterable[int]) -> Reading:
        """Read the logits of the last decoded token, which must have been flagged.

        Raises:
            NativeError: there are none, or one is not a number.
        """
        pointer = native.llama_get_logits_ith(self._handle, -1)
        if not pointer:
            raise NativeError("llama.cpp has no logits for the last token")
        logits = np.ctypeslib.as_array(pointer, (self._vocabulary_size,))
        top = int(logits.argmax())
        peak = float(logits[top])
        total = float(np.exp(logits.astype(np.float64) - peak).sum())
        if not np.isfinite(peak) or not np.isfinite(total):
            raise NativeError("the model's logits are not finite")
        return Reading(
            label_logits=tuple(float(logits[token]) for token in label_tokens),
            log_sum_exp=peak + float(np.log(total)),
            top_token=top,
        )

    def fork(self) -> None:
        """Make the branch sequence a copy of the whole trunk."""
        native.llama_memory_seq_cp(self._memory, TRUNK, FORK, -1, -1)

    def remove(self, sequence: int) -> None:
        """Remove a whole sequence.

        Raises:
            NativeError: llama.cpp refused.
        """
        if not native.llama_memory_seq_rm(self._memory, sequence, -1, -1):
            raise NativeError(f"llama.cpp cannot remove sequence {sequence}")

    def cut(self, tokens: int) -> None:
        """Remove what the trunk holds from position *tokens* on.

        Raises:
            NativeError: llama.cpp refused, as it does for recurrent memories.
        """
        if not native.llama_memory_seq_rm(self._memory, TRUNK, tokens, -1):
            raise NativeError(f"llama.cpp cannot cut the trunk at {tokens} tokens")

    def save(self) -> State:
        """Return the state of the trunk; the branch sequence must be empty.

        Raises:
            NativeError: llama.cpp wrote less than it said it would.
        """
        if not self._window_tokens:
            return (self._save(TRUNK),)
        # Of layers with a window llama.cpp saves only what the next token can see. A restored
        # trunk would then lie elsewhere in its cells, and the bits of long branches would move.
        # So it is saved in pieces that each fit the window, and comes back cell by cell.
        pieces = []
        end = native.llama_memory_seq_pos_max(self._memory, TRUNK) + 1
        for start in range(0, end, self._window_tokens - 1):
            stop = min(end, start + self._window_tokens - 1)
            native.llama_memory_seq_cp(self._memory, TRUNK, FORK, start, stop)
            pieces.append(self._save(FORK))
            self.remove(FORK)
        return tuple(pieces)

    def restore(self, state: State) -> None:
        """Make the trunk what it was when *state* was saved; the context must be empty.

        Raises:
            NativeError: llama.cpp does not take it; both sequences must be removed.
        """
        if len(state) == 1:
            self._restore(TRUNK, state[0])
            return
        for piece in state:
            self._restore(FORK, piece)
            native.llama_memory_seq_cp(self._memory, FORK, TRUNK, -1, -1)
            self.remove(FORK)

    def _save(self, sequence: int) -> bytearray:
        size = native.llama_state_seq_get_size(self._handle, sequence)
        data = bytearray(size)
        buffer = (ctypes.c_uint8 * size).from_buffer(data)
        written = native.llama_state_seq_get_data(self._handle, buffer, size, sequence)
        if written != size:
            raise NativeError(f"llama.cpp saved {written} of {size} bytes of a sequence")
        return data

    def _restore(self, sequence: int, data: bytearray) -> None:
        buffer = (ctypes.c_uint8 * len(data)).from_buffer(data)
        taken = native.llama_state_seq_set_data(self._handle, buffer, len(data), sequence)
        if taken != len(data):
            raise NativeError(f"llama.cpp took {taken} of {len(data)} bytes of a saved sequence")

    def is_empty(self) -> bool:
        """Return whether no sequence holds a cell."""
        return all(
            native.llama_memory_seq_pos_max(self._memory, sequence) == -1
            for sequence in range(_SEQUENCES)
        )

    def set_threads(self, threads: int) -> None:
        """Use *threads* threads from the next call on; the bits stay the same."""
        native.llama_set_n_threads(self._handle, threads, threads)


class _Batch:
    """The arguments of one llama.cpp call, in buffers that are filled anew for each.

    All tokens of a call belong to one sequence, so all sequence pointers name the same number.
    """

    def __init__(self, capacity: int) -> None:
        self._tokens = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._ones = np.ones(capacity, np.int32)
        self._flags = np.zeros(capacity, np.int8)
        self._sequence = native.llama_seq_id(0)
        pointer = ctypes.pointer(self._sequence)
        self._sequences = (type(pointer) * capacity)(*[pointer] * capacity)
        self._native = native.llama_batch(
            n_tokens=0,
            token=_as_pointer(self._tokens, native.llama_token),
            embd=None,
            pos=_as_pointer(self._positions, native.llama_pos),
            n_seq_id=_as_pointer(self._ones, ctypes.c_int32),
            seq_id=self._sequences,
            logits=_as_pointer(self._flags, ctypes.c_int8),
        )

    def filled(
        self, tokens: Sequence[int], *, position: int, sequence: int, read: bool
    ) -> native.llama_batch:
        """Fill the buffers for one call.

        Raises:
            NativeError: too few or too many tokens; llama.cpp would abort the process.
        """
        count, capacity = len(tokens), len(self._tokens)
        if not 0 < count <= capacity:
            raise NativeError(f"{count} tokens in one call; 1 to {capacity} fit")
        self._tokens[:count] = tokens
        self._positions[:count] = np.arange(position, position + count, dtype=np.int32)
        self._flags[:count] = 0
        self._flags[count - 1] = read
        self._sequence.value = sequence
        self._native.n_tokens = count
        return self._native


def _as_pointer(array: Any, kind: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(kind))
