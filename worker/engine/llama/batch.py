"""The arguments of one llama.cpp call."""

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp.llama_cpp as llama
import numpy as np

from worker.engine.calls import NativeError, Segment

_MOST_SEQUENCES = 256  # of llama.cpp; a higher number aborts the process


class Batch:
    """The arguments of one call, in buffers that are filled anew for each.

    Args:
        capacity: the most tokens of one call.
        sequences: of the context.

    Attributes:
        native: what ``llama_decode`` takes.
    """

    def __init__(self, capacity: int, sequences: int) -> None:
        self._sequences = min(sequences, _MOST_SEQUENCES)
        self._tokens = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._counts = np.zeros(capacity, np.int32)  # of sequences of each token
        self._flags = np.zeros(capacity, np.int8)
        # Each token's sequences are named by a pointer; tokens of one segment share it.
        self._pointers = np.zeros(capacity, np.uintp)
        self._named = np.zeros(capacity * sequences, np.int32)
        self.native = llama.llama_batch(
            n_tokens=0,
            token=_as_pointer(self._tokens, llama.llama_token),
            embd=None,
            pos=_as_pointer(self._positions, llama.llama_pos),
            n_seq_id=_as_pointer(self._counts, ctypes.c_int32),
            seq_id=_as_pointer(self._pointers, ctypes.POINTER(llama.llama_seq_id)),
            logits=_as_pointer(self._flags, ctypes.c_int8),
        )

    @property
    def fill_ratio(self) -> float:
        """The tokens of the call, as a share of the most that fit."""
        return float(self.native.n_tokens / len(self._tokens))

    def fill(self, segments: Sequence[Segment]) -> list[int]:
        """Fill the buffers for one call; return the places of the tokens to be read.

        Raises:
            NativeError: llama.cpp would abort the process.
        """
        self._check(segments)
        rows = []
        start = named = 0
        for segment in segments:
            stop = start + len(segment.tokens)
            self._tokens[start:stop] = segment.tokens
            self._positions[start:stop] = np.arange(
                segment.position, segment.position + stop - start, dtype=np.int32
            )
            count = len(segment.sequences)
            self._named[named : named + count] = segment.sequences
            self._pointers[start:stop] = self._named.ctypes.data + named * self._named.itemsize
            self._counts[start:stop] = count
            self._flags[start:stop] = 0
            if segment.read:
                self._flags[stop - 1] = 1
                rows.append(stop - 1)
            start, named = stop, named + count
        self.native.n_tokens = start
        return rows

    def _check(self, segments: Sequence[Segment]) -> None:
        count, capacity = sum(len(segment.tokens) for segment in segments), len(self._tokens)
        if not 0 < count <= capacity or not all(len(segment.tokens) for segment in segments):
            raise NativeError(f"{count} tokens in one call; 1 to {capacity} fit")
        outputs = sum(segment.read for segment in segments)
        if outputs > self._sequences:
            raise NativeError(f"{outputs} outputs in one call; at most {self._sequences} fit")
        for segment in segments:
            if not segment.sequences or not all(
                0 <= sequence < self._sequences for sequence in segment.sequences
            ):
                raise NativeError(f"a context of {self._sequences} sequences has no such sequence")


def _as_pointer(array: Any, kind: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(kind))
