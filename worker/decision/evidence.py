"""What an answer was read from, for callers who ask for more than the answer."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.decision.asked import Asked, View, Worded
from worker.decision.scores import Reading


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one question's answer was read from.

    Attributes:
        option_logits: of each option in request order, before temperature and softmax; of several
            views their mean.
        option_tokens: the token that each option was read at, in request order, in the first view.
        top_token: the likeliest token of the whole vocabulary, in the first view.
        prompt_tokens: of all views together.
        prompt_sha256: of the views' texts, one after the other.
    """

    option_logits: tuple[float, ...]
    option_tokens: tuple[int, ...]
    top_token: int
    prompt_tokens: int
    prompt_sha256: str


@dataclass(slots=True)
class Witness:
    """Sees what the answers of one ticket are read from.

    Attributes:
        max_prompt_tokens: the most that a prompt may have; None: what fits the context.
        seen: one for each question, once the ticket is evaluated.
        trunk_tokens: the tokens that the prompts share.
    """

    max_prompt_tokens: int | None = None
    seen: tuple[Evidence, ...] = field(default=(), repr=False)
    trunk_tokens: int = 0

    def see(
        self,
        worded: Worded,
        readings: Sequence[Reading],
        prompt_tokens: Sequence[int],
        trunk_tokens: int,
    ) -> None:
        """Note what was read.

        Args:
            worded: the ticket as it was put.
            readings: one for each view of each question.
            prompt_tokens: of each of these prompts.
            trunk_tokens: the tokens that they share.
        """
        left = iter(zip(readings, prompt_tokens, strict=True))
        self.seen = tuple(
            _evidence(asked, [next(left) for _ in asked.views]) for asked in worded.questions
        )
        self.trunk_tokens = trunk_tokens


def _evidence(asked: Asked, found: Sequence[tuple[Reading, int]]) -> Evidence:
    views = [
        _in_request_order(view, reading)
        for view, (reading, _) in zip(asked.views, found, strict=True)
    ]
    texts = hashlib.sha256()
    for view in asked.views:
        for piece in view.prompt:
            texts.update(piece.text.encode("utf-8", "surrogatepass"))
    return Evidence(
        option_logits=tuple(
            math.fsum(logit for logit, _ in option) / len(views)
            for option in zip(*views, strict=True)
        ),
        option_tokens=tuple(token for _, token in views[0]),
        top_token=found[0][0].top_token,
        prompt_tokens=sum(tokens for _, tokens in found),
        prompt_sha256=texts.hexdigest(),
    )


def _in_request_order(view: View, reading: Reading) -> list[tuple[float, int]]:
    """Return logit and token of each option; of several spellings those of the likeliest."""
    left = iter(zip(reading.label_logits, view.label_tokens, strict=True))
    shown = [max(next(left) for _ in label) for label in view.labels]
    if not view.order:  # its labels are a rating, and stand for no option
        return shown
    return [found for _, found in sorted(zip(view.order, shown, strict=True))]
