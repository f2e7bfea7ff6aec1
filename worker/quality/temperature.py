"""Find the temperature that makes probabilities of a model's preferences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from worker.quality.measures import Floats, Ints

COLDEST, HOTTEST = 0.05, 20.0
"""Beyond these the search has found no temperature: the answers are all right, or all noise."""

_TOLERANCE = 1e-7
_FLAT = 1e-9
_LEAST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class Labelled:
    """Answers to one question whose right options are known.

    Attributes:
        probabilities: (answers, options), as the model gave them.
        truth: (answers,) indices of the right options.
    """

    probabilities: Floats
    truth: Ints


def temper(probabilities: Floats, temperature: float) -> Floats:
    """Return ``p_i^(1/T) / sum(p^(1/T))`` for each row.

    As :func:`worker.decision.scores.tempered`, for many answers at once.
    """
    logits = np.log(np.clip(probabilities, _LEAST, None)) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


def fit_temperature(parts: Sequence[Labelled]) -> float | None:
    """Return the temperature with the least log loss; None: there is none within the bounds.

    Temperature scaling, Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural
    networks", ICML 2017. The loss is convex in ``1/T``, so it has one minimum, which
    ``scipy.optimize.minimize_scalar`` (Brent's method, bounded) finds.

    Args:
        parts: answers to one question, or to several that share a temperature.
    """
    parts = [part for part in parts if part.probabilities.shape[1] > 1]
    if not parts:
        return None
    logits = [np.log(np.clip(part.probabilities, _LEAST, None)) for part in parts]
    rows = [np.arange(len(part.truth)) for part in parts]

    def loss(log_temperature: float) -> float:
        total = 0.0
        for part, given, row in zip(parts, logits, rows, strict=True):
            scaled = given / math.exp(log_temperature)
            scaled -= scaled.max(axis=1, keepdims=True)
            norms = np.log(np.exp(scaled).sum(axis=1))
            total += float((norms - scaled[row, part.truth]).sum())
        return total

    ends = math.log(COLDEST), math.log(HOTTEST)
    found = optimize.minimize_scalar(
        loss, bounds=ends, method="bounded", options={"xatol": _TOLERANCE}
    )
    # Where an end is as good as what was found, the loss has no minimum of its own in between.
    least = found.fun + _FLAT * sum(map(len, rows))
    return math.exp(found.x) if all(loss(end) > least for end in ends) else None
