"""What becomes of a state that is too long for one prompt."""

from dataclasses import dataclass
from typing import Literal

OverflowRule = Literal["reject", "window"]
Aggregation = Literal["max", "mean"]
NoulAggregation = Literal["max", "mean", "noisy_or"]


@dataclass(frozen=True, slots=True)
class Overflow:
    """Whether a long state is read in windows, how those are cut, how answers come of them.

    A state is long when a prompt with it leaves less than *question_tokens* of *window_tokens*:
    that depends on state and template alone, so that no question changes what others are read in.

    Attributes:
        rule: reject the ticket, or read the state in windows.
        window_tokens: the longest prompt, question included.
        question_tokens: of those kept for a question, beyond one of two words.
        overlap_tokens: the most that a window repeats of the one before.
        max_windows: a state that needs more is rejected.
        aggregation: how the answers to choices and scores come of those of the windows.
        noul_aggregation: how those to nouls do.
    """

    rule: OverflowRule = "reject"
    window_tokens: int = 4096
    question_tokens: int = 1024
    overlap_tokens: int = 512
    max_windows: int = 16
    aggregation: Aggregation = "mean"
    noul_aggregation: NoulAggregation = "max"


REJECT_LONG = Overflow()
"""What becomes of long states unless something is said."""
