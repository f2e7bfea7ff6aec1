"""How far a distribution of today is from the one that a policy was calibrated on."""

import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

_LEAST_SHARE = 1e-4
"""Of a bin; an empty one would make the index infinite."""

WATCH, SHIFTED = 0.1, 0.25
"""Under the first a population counts as stable, from the second on as another one. Siddiqi,
"Credit Risk Scorecards", 2006, page 137; a rule of thumb, not a test."""

_MOST_OFF = 1e-3


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Binned(_Part):
    """Shares of a number's values between edges.

    Attributes:
        edges: ascending; a value that equals an edge belongs to the bin above it.
        shares: one more than edges; they sum to 1.
    """

    edges: list[float]
    shares: list[float]

    @model_validator(mode="after")
    def _check(self) -> "Binned":
        if sorted(set(self.edges)) != self.edges or not all(map(math.isfinite, self.edges)):
            raise ValueError("edges must ascend")
        if len(self.shares) != len(self.edges) + 1:
            raise ValueError("shares must be one more than edges")
        _check_shares(self.shares)
        return self

    def bin_of(self, value: float) -> int:
        """Return the index of the bin that a value falls in."""
        return sum(value >= edge for edge in self.edges)


class Reference(_Part):
    """The answers to one question that a policy was calibrated on.

    Attributes:
        cases: how many.
        answers: share of each option among the answers.
        confidence: of the answers.
        label_mass: of the answers; None: it was not told.
    """

    cases: int = Field(ge=1)
    answers: dict[str, float] = Field(min_length=1)
    confidence: Binned
    label_mass: Binned | None = None

    @model_validator(mode="after")
    def _check(self) -> "Reference":
        _check_shares(list(self.answers.values()))
        return self


def _check_shares(shares: Sequence[float]) -> None:
    if not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > _MOST_OFF:
        raise ValueError("shares must be from 0 to 1, and sum to 1")


def stability_index(expected: Sequence[float], counts: Sequence[int]) -> float:
    """Return the population stability index ``sum((a_i - e_i) * ln(a_i / e_i))``.

    Siddiqi, "Credit Risk Scorecards", 2006, page 136; it is Jeffreys' divergence of both.

    Args:
        expected: (bins,) shares; they sum to 1.
        counts: (bins,) of what is compared with them; at least one is over 0.
    """
    total = sum(counts)
    pairs = (
        (max(share, _LEAST_SHARE), max(count / total, _LEAST_SHARE))
        for share, count in zip(expected, counts, strict=True)
    )
    return math.fsum((here - then) * math.log(here / then) for then, here in pairs)


def judgement(index: float) -> str:
    """Say what an index means: ``stable``, ``watch`` or ``shifted``."""
    if index < WATCH:
        return "stable"
    return "watch" if index < SHIFTED else "shifted"
