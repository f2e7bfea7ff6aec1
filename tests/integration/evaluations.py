"""Evaluations of exact token lengths, and what each of their branches must read.

Every word is one token in the tiny vocabularies and in the sample model's, whatever stands beside
it, so a number of words is a number of tokens. The vocabularies add one token in front.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.tiny_gguf import WORDS
from worker.decision.scores import Reading
from worker.decision.text import Piece, PromptText
from worker.engine.exact import FORK, TRUNK
from worker.engine.llama import Context, Model
from worker.engine.options import ModelOptions
from worker.engine.plan import common_prefix, spans
from worker.ports import Branch, Evaluation

BOS_TOKENS = 1
LABELS = ("A", "B", "C", "D")


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long an evaluation is.

    Attributes:
        trunk: tokens that all prompts share, the first one included.
        branches: tokens of each branch after those.
        seed: of the words; states of one seed begin alike, the shorter one is a prefix.
    """

    trunk: int
    branches: tuple[int, ...]
    seed: int = 0


def make_evaluation(model: Model, lengths: Lengths) -> Evaluation:
    """Make an evaluation whose trunk and branches have exactly these lengths."""
    state = _words(random.Random(lengths.seed), lengths.trunk - BOS_TOKENS)
    draw = random.Random(f"{lengths}")
    probes = (_prompt(state, " Question"), _prompt(state, " Answer"))
    branches = tuple(
        Branch(_prompt(state, _words(draw, length)), label_tokens(model))
        for length in lengths.branches
    )
    for branch, length in zip(branches, lengths.branches, strict=True):
        assert lengths.trunk + length == len(model.encode(branch.prompt))
    return Evaluation(probes, branches)


def label_tokens(model: Model) -> tuple[int, ...]:
    """Return the tokens of the labels."""
    return tuple(model.encode(_prompt(f" {label}"))[-1] for label in LABELS)


def alone(evaluation: Evaluation, branch: Branch) -> Evaluation:
    """Return an evaluation of one of its branches."""
    return replace(evaluation, branches=(branch,))


def expected_readings(
    model: Model, options: ModelOptions, evaluation: Evaluation
) -> tuple[Reading, ...]:
    """Read each branch alone, in a new context, on one thread: what every other way must equal.

    Written down here once more, so that the worker's own way of doing it is not its own judge.
    """
    first, second = map(model.encode, evaluation.probes)
    shared = common_prefix(first, second)
    readings: list[Reading] = []
    for branch in evaluation.branches:
        with Context(model, replace(options, threads=1)) as context:
            readings.append(
                read_alone(context, first[:shared], model.encode(branch.prompt), branch)
            )
            assert context.is_empty()
    return tuple(readings)


def read_alone(
    context: Context, trunk: Sequence[int], prompt: Sequence[int], branch: Branch
) -> Reading:
    """Decode the trunk but for its last token, fork it, decode the rest; leave nothing behind."""
    try:
        start = len(trunk) - 1
        forks = start >= 2 and list(trunk) == prompt[: len(trunk)] and len(prompt) > len(trunk)
        sequence = FORK if forks else TRUNK
        if forks:
            for span in spans(0, start):
                call = prompt[span.start : span.stop]
                context.decode(call, position=span.start, sequence=TRUNK)
            context.fork()
        for span in spans(start if forks else 0, len(prompt)):
            call = prompt[span.start : span.stop]
            context.decode(call, position=span.start, sequence=sequence, read=True)
        return context.read(branch.label_tokens)
    finally:
        context.remove(FORK)
        context.remove(TRUNK)


def in_hex(readings: Sequence[Reading]) -> list[str]:
    """Write readings down to the last bit."""
    return [
        " ".join([*map(float.hex, (*reading.label_logits, reading.log_sum_exp))])
        for reading in readings
    ]


def _words(draw: random.Random, count: int) -> str:
    return "".join(f" {word}" for word in draw.choices(WORDS, k=count))


def _prompt(*texts: str) -> PromptText:
    return tuple(Piece(text, trusted=False) for text in texts if text)
