"""The rule that turns scores into a verdict, and verdicts into a ticket's disposition."""

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

Disposition = Literal["accept", "review", "abstain"]

# From the most daring to the most cautious.
_CAUTION: tuple[Disposition, ...] = ("accept", "review", "abstain")


class Verdict(BaseModel):
    """What to do about one answer.

    Attributes:
        reasons: every rule that applied, as stable words.
        threshold: the threshold that was compared with, when there is one.
    """

    model_config = ConfigDict(frozen=True)

    disposition: Disposition
    reasons: tuple[str, ...]
    threshold: float | None = None


NO_POLICY = Verdict(disposition="review", reasons=("no_policy",))
"""Without a policy nothing is accepted: every answer is for a person to review."""


def most_cautious(verdicts: Iterable[Verdict]) -> Disposition:
    """Return the most cautious disposition among *verdicts*."""
    return max((verdict.disposition for verdict in verdicts), key=_CAUTION.index)
