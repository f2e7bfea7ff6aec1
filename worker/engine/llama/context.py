"""A stateful llama.cpp context: decode, fork, save, restore, read."""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as native
import numpy as np

from worker import metrics
from worker.decision.scores import Reading
from worker.engine.calls import Aborted, CellsExhausted, NativeError, Segment
from worker.engine.exact import FORK, TRUNK
from worker.engine.llama.backend import Handle, native_log
from worker.engine.llama.batch import Batch
from worker.engine.options import FlashAttention, KvType, ModelOptions
from worker.engine.trunks import State
from worker.errors import CannotRun

if TYPE_CHECKING:  # it makes contexts, and so imports this module
    from worker.engine.llama.model import Model

_NO_CELLS, _ABORTED = 1, 2  # what llama_decode returns

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


class Context(Handle):
    """One stateful llama.cpp context of several sequences; belongs to one thread at a time.

    Args:
        model: whose weights to use; must outlive the context.
        options: sizes, threads and types.
        abort: asked by llama.cpp many times within a call; True gives the call up. Only the CPU
            backend asks: what is computed on a GPU ends with its call.

    Raises:
        CannotRun: llama.cpp cannot make the context; most often memory.
    """

    def __init__(
        self, model: "Model", options: ModelOptions, abort: Callable[[], bool] = lambda: False
    ) -> None:
        self.cells = options.context_tokens
        self._vocabulary_size = model.vocabulary_size
        self._window_tokens = model.window_tokens
        self._sequences = options.sequences
        self._handles = ExitStack()
        self._abort = native.ggml_abort_callback(lambda _: abort())  # must outlive the context
        native_log.clear()
        self._handle = native.llama_init_from_model(
            model.handle,
            self._parameters(options),
        )
        if not self._handle:
            raise CannotRun(
                f"llama.cpp cannot make a context of {options.context_tokens} tokens:"
                f" {native_log.explanation()}"
            )
        self._handles.callback(native.llama_free, self._handle)
        self._memory = native.llama_get_memory(self._handle)
        # Not options.batch_tokens: llama.cpp cuts that to the context's size.
        self._batch = Batch(native.llama_n_batch(self._handle), options.sequences)

    def _parameters(self, options: ModelOptions) -> Any:
        parameters = native.llama_context_default_params()
        parameters.n_ctx = options.context_tokens
        parameters.n_batch = options.batch_tokens
        parameters.n_ubatch = options.ubatch_tokens
        parameters.n_seq_max = options.sequences
        parameters.n_outputs_max = options.sequences
        parameters.n_threads = parameters.n_threads_batch = options.threads
        parameters.flash_attn_type = _FLASH_ATTENTION[options.flash_attention]
        parameters.type_k = parameters.type_v = _KV_TYPES[options.kv_type]
        parameters.kv_unified = True
        parameters.swa_full = True  # forks need cells that a pruned window no longer has
        parameters.no_perf = True
        parameters.abort_callback = self._abort
        return parameters

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
        self.decode_together([Segment(tokens, position, (sequence,), read)])

    def decode_together(self, segments: Sequence[Segment]) -> list[int]:
        """Decode *segments* in one call; return where those to be read can be read.

        Raises:
            Aborted: the abort callback said so.
            CellsExhausted: no cells are free for so many tokens; nothing was stored.
            NativeError: llama.cpp refused the call.
        """
        rows = self._batch.fill(segments)
        with metrics.DECODE_SECONDS.time():
            code = native.llama_decode(self._handle, self._batch.native)
        metrics.BATCH_FILL.observe(self._batch.fill_ratio)
        if code == _ABORTED:
            raise Aborted("the call was given up")
        if code:
            tokens = sum(len(segment.tokens) for segment in segments)
            at = segments[0].position
            message = f"llama_decode returned {code} for {tokens} tokens at {at}"
            raise CellsExhausted(message) if code == _NO_CELLS else NativeError(message)
        return rows

    def read(self, label_tokens: Iterable[int], at: int = -1) -> Reading:
        """Read the logits of a token of the last call, which must have been flagged.

        Args:
            label_tokens: whose logits to read.
            at: the token's place in the call; -1 is the last one flagged.

        Raises:
            NativeError: there are none, or one is not a number.
        """
        pointer = native.llama_get_logits_ith(self._handle, at)
        if not pointer:
            raise NativeError(f"llama.cpp has no logits for token {at}")
        logits = np.ctypeslib.as_array(pointer, (self._vocabulary_size,))
        top = int(logits.argmax())
        peak = float(logits[top])
        # Single precision is six times as fast over a vocabulary, and is summed in double: the
        # sum is off by less than 1e-7 of itself.
        total = float(np.exp(logits - logits[top]).sum(dtype=np.float64))
        if not np.isfinite(peak) or not np.isfinite(total):
            raise NativeError("the model's logits are not finite")
        return Reading(
            label_logits=tuple(float(logits[token]) for token in label_tokens),
            log_sum_exp=peak + float(np.log(total)),
            top_token=top,
        )

    def fork(self) -> None:
        """Make the branch sequence a copy of the whole trunk."""
        self.copy(TRUNK, FORK)

    def copy(self, source: int, target: int) -> None:
        """Make an empty sequence a copy of another."""
        native.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def remove(self, sequence: int) -> None:
        """Remove a whole sequence.

        Raises:
            NativeError: llama.cpp refused.
        """
        if not native.llama_memory_seq_rm(self._memory, sequence, -1, -1):
            raise NativeError(f"llama.cpp cannot remove sequence {sequence}")

    def cut(self, tokens: int, sequence: int = TRUNK) -> None:
        """Remove what a sequence holds from position *tokens* on.

        Raises:
            NativeError: llama.cpp refused, as it does for recurrent memories.
        """
        if not native.llama_memory_seq_rm(self._memory, sequence, tokens, -1):
            raise NativeError(f"llama.cpp cannot cut sequence {sequence} at {tokens} tokens")

    def save(self, sequence: int = TRUNK, spare: int = FORK) -> State:
        """Return the state of a sequence.

        Args:
            sequence: whose.
            spare: a sequence that is empty, and will be empty again.

        Raises:
            NativeError: llama.cpp wrote less than it said it would.
        """
        if not self._window_tokens:
            return (self._save(sequence),)
        # Of layers with a window llama.cpp saves only what the next token can see. A restored
        # trunk would then lie elsewhere in its cells, and the bits of long branches would move.
        # So it is saved in pieces that each fit the window, and comes back cell by cell.
        pieces = []
        end = native.llama_memory_seq_pos_max(self._memory, sequence) + 1
        for start in range(0, end, self._window_tokens - 1):
            stop = min(end, start + self._window_tokens - 1)
            native.llama_memory_seq_cp(self._memory, sequence, spare, start, stop)
            pieces.append(self._save(spare))
            self.remove(spare)
        return tuple(pieces)

    def restore(self, state: State, sequence: int = TRUNK, spare: int = FORK) -> None:
        """Make an empty sequence what it was when *state* was saved.

        For equal bits the whole context must be empty.

        Args:
            state: what :meth:`save` returned.
            sequence: which is empty.
            spare: another that is empty, and will be empty again.

        Raises:
            NativeError: llama.cpp does not take it; both sequences must be removed.
        """
        if len(state) == 1:
            self._restore(sequence, state[0])
            return
        for piece in state:
            self._restore(spare, piece)
            self.copy(spare, sequence)
            self.remove(spare)

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
            for sequence in range(self._sequences)
        )

    def set_threads(self, threads: int) -> None:
        """Use *threads* threads from the next call on; the bits stay the same."""
        native.llama_set_n_threads(self._handle, threads, threads)
