"""Whether answers are right as often as their probabilities say."""

import itertools
from dataclasses import dataclass

import numpy as np

from worker.quality.measures import Flags, Floats, Ints

MOST_BINS = 15
_PER_BIN = 10
_SIMULATIONS = 200


@dataclass(frozen=True, slots=True)
class Bin:
    """Some answers of about the same confidence.

    Attributes:
        confidence: the mean probability of their best options.
        accuracy: the share of them that is right.
        count: how many there are.
    """

    confidence: float
    accuracy: float
    count: int


def bin_starts(answers: int, most: int = MOST_BINS) -> Ints:
    """Return where bins of equal mass begin in a row of sorted answers, ten or more in each.

    The first bins have one more when the number does not divide, as ``numpy.array_split`` has it.
    """
    bins = max(1, min(most, answers // _PER_BIN))
    sizes = np.full(bins, answers // bins, dtype=np.int64)
    sizes[: answers % bins] += 1
    return np.asarray(np.concatenate([[0], np.cumsum(sizes)[:-1]]), dtype=np.int64)


def reliability(confidence: Floats, right: Flags, most: int = MOST_BINS) -> list[Bin]:
    """Return bins of equal mass, from the least sure to the surest.

    Args:
        confidence: (answers,) the probability of the best option.
        right: (answers,) whether that option was right.
        most: bins.
    """
    order = np.argsort(confidence, kind="stable")
    edges = [*bin_starts(len(order), most), len(order)]
    return [
        Bin(float(confidence[part].mean()), float(right[part].mean()), len(part))
        for part in (order[one:end] for one, end in itertools.pairwise(edges))
    ]


def ece(confidence: Floats, right: Flags, most: int = MOST_BINS) -> float:
    """Return the expected calibration error: ``sum(n_b/n * |accuracy_b - confidence_b|)``.

    Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
    binning", AAAI 2015; with bins of equal mass as in Nixon et al., "Measuring calibration in deep
    learning", 2019.
    """
    order = np.argsort(confidence, kind="stable")
    gaps = confidence[order] - right[order]
    return float(np.abs(np.add.reduceat(gaps, bin_starts(len(order), most))).sum() / len(order))


def ece_noise_floor(confidence: Floats, seed: int, most: int = MOST_BINS) -> float:
    """Return the mean calibration error that perfectly calibrated answers would show.

    The answers' own confidences, with right and wrong drawn from them: consistency resampling,
    Bröcker and Smith, "Increasing the reliability of reliability diagrams", Weather and
    Forecasting 22, 2007. A measured error near it means nothing.
    """
    rng = np.random.default_rng(seed)
    ordered = np.sort(confidence)
    starts = bin_starts(len(ordered), most)
    total = 0.0
    for _ in range(_SIMULATIONS):
        gaps = ordered - (rng.random(len(ordered)) < ordered)
        total += float(np.abs(np.add.reduceat(gaps, starts)).sum() / len(ordered))
    return total / _SIMULATIONS
