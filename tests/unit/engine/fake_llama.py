"""A model and contexts that decode nothing, but check every call as llama.cpp would.

What a context reads depends on every token that its sequence holds, so work that lost, mixed up or
repeated a token reads something else.
"""

import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from worker.decision.scores import Reading
from worker.decision.text import PromptText
from worker.engine.calls import CellsExhausted, NativeError, Segment
from worker.engine.options import ModelOptions
from worker.engine.trunks import State

Cell = tuple[int, int]
"""A token, and the number of the cell it lies in."""

POISON = ord("☠")
"""Prompts with this token cannot be read."""


@dataclass
class FakeModel:
    """Every character is a token.

    Attributes:
        is_recurrent: whether a token belongs to one sequence only.
        is_divisible: whether a sequence can be cut back.
        refused_restores: so many saved states are not taken.
        begins: set by every call that begins.
        gate: calls wait here.
    """

    is_recurrent: bool = False
    is_divisible: bool = True
    refused_restores: int = 0
    contexts: list["FakeContext"] = field(default_factory=list)
    begins: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def encode(self, prompt: PromptText) -> list[int]:
        return [ord(character) for piece in prompt for character in piece.text]

    def make_context(self, options: ModelOptions, abort: Callable[[], bool]) -> "FakeContext":
        self.contexts.append(FakeContext(options, self, abort))
        return self.contexts[-1]


@dataclass
class FakeContext:
    """A stateful context of several sequences.

    Attributes:
        calls: the tokens of each call that was made, by the sequences they belong to.
    """

    options: ModelOptions
    model: FakeModel = field(default_factory=FakeModel)
    abort: Callable[[], bool] = lambda: False
    held: dict[int, list[Cell]] = field(default_factory=dict)
    calls: list[list[tuple[tuple[int, ...], int]]] = field(default_factory=list)
    _cells: int = 0
    _readable: dict[int, int] = field(default_factory=dict)

    @property
    def resident(self) -> int:
        """Cells that hold a token."""
        return len({cell for held in self.held.values() for _, cell in held})

    def decode_together(self, segments: Sequence[Segment]) -> list[int]:
        self.model.begins.set()
        assert self.model.gate.wait(60)
        tokens = sum(len(segment.tokens) for segment in segments)
        assert 0 < tokens <= self.options.batch_tokens
        if self.resident + tokens > self.options.context_tokens:
            raise CellsExhausted(f"no room for {tokens} tokens")
        self._readable.clear()
        at = 0
        for segment in segments:
            cells = [self._new_cell(token) for token in segment.tokens]
            for sequence in segment.sequences:
                assert 0 <= sequence < self.options.sequences - 1, "the last one is for saving"
                held = self.held.setdefault(sequence, [])
                assert segment.position == len(held), "a gap, or an overlap"
                held += cells
            at += len(cells)
            if segment.read:
                self._readable[at - 1] = segment.sequences[0]
        self.calls.append([(one.sequences, len(one.tokens)) for one in segments])
        return list(self._readable)

    def read(self, label_tokens: Sequence[int], at: int) -> Reading:
        tokens = [token for token, _ in self.held[self._readable[at]]]
        if POISON in tokens:
            raise NativeError("the model's logits are not finite")
        return reading_of(tokens, label_tokens)

    def copy(self, source: int, target: int) -> None:
        assert not self.held.get(target), "copied over another"
        self.held[target] = list(self.held[source])

    def remove(self, sequence: int) -> None:
        self.held.pop(sequence, None)

    def cut(self, tokens: int, sequence: int) -> None:
        assert 0 < tokens < len(self.held[sequence])
        assert self.model.is_divisible
        del self.held[sequence][tokens:]

    def save(self, sequence: int, spare: int) -> State:
        assert not self.held.get(spare)
        return (bytearray(pickle.dumps([token for token, _ in self.held[sequence]])),)

    def restore(self, state: State, sequence: int, spare: int) -> None:
        assert not self.held.get(sequence)
        assert not self.held.get(spare)
        tokens = pickle.loads(state[0])
        is_refused = self.model.refused_restores > 0
        self.model.refused_restores -= is_refused
        if is_refused or self.resident + len(tokens) > self.options.context_tokens:
            self.held[sequence] = [self._new_cell(token) for token in tokens[: len(tokens) // 2]]
            self.held[spare] = list(self.held[sequence])
            raise NativeError("llama.cpp took half of a saved sequence")
        self.held[sequence] = [self._new_cell(token) for token in tokens]

    def set_threads(self, threads: int) -> None:
        assert threads > 0

    def close(self) -> None:
        self.held.clear()

    def _new_cell(self, token: int) -> Cell:
        self._cells += 1
        return token, self._cells


def reading_of(tokens: Sequence[int], label_tokens: Sequence[int]) -> Reading:
    """Return what is read after *tokens*."""
    seen = tuple(tokens)
    logits = tuple(float(hash((seen, label)) % 10_000) for label in label_tokens)
    return Reading(logits, log_sum_exp=float(hash(seen) % 10_000), top_token=len(seen))
