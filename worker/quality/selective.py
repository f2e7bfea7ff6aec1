"""What is gained by answering only where the model is sure."""

from dataclasses import dataclass

import numpy as np

from worker.quality.measures import Flags, Floats


@dataclass(frozen=True, slots=True)
class Point:
    """One threshold of a risk-coverage curve.

    Attributes:
        threshold: answers at least so sure are accepted.
        coverage: the share of answers that is accepted.
        risk: the share of the accepted that is wrong.
    """

    threshold: float
    coverage: float
    risk: float


def risk_coverage(confidence: Floats, right: Flags) -> list[Point]:
    """Return a point for each confidence that occurs, from the surest on.

    El-Yaniv and Wiener, "On the foundations of noise-free selective classification", JMLR 11,
    2010.
    """
    levels, place = np.unique(-confidence, return_inverse=True)
    counts = np.bincount(place, minlength=len(levels)).cumsum()
    wrong = np.bincount(place, weights=~right, minlength=len(levels)).cumsum()
    return [
        Point(float(-level), float(count / len(confidence)), float(errors / count))
        for level, count, errors in zip(levels, counts, wrong, strict=True)
    ]


def aurc(confidence: Floats, right: Flags) -> float:
    """Return the area under the risk-coverage curve: the mean risk of the i surest, i from 1 to n.

    Geifman, Uziel and El-Yaniv, "Bias-reduced uncertainty estimation for deep neural
    classifiers", ICLR 2019. Answers of equal confidence count as if in random order: what is
    returned is the mean over all their orders.
    """
    _, place, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    # In the mean over all orders, each of some equal answers is wrong by the same part.
    part = np.bincount(place, weights=~right) / counts
    errors = np.repeat(part, counts).cumsum()
    return float((errors / np.arange(1, len(errors) + 1)).mean())
