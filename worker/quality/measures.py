"""How right a question's answers are, and how right their probabilities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_LEAST = float(np.finfo(np.float64).eps)


def predicted(probabilities: Floats) -> Ints:
    """Return the most likely option of each answer; the first on a tie, as answers have it.

    Args:
        probabilities: (answers, options).
    """
    return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)


def accuracy(truth: Ints, given: Ints) -> float:
    """Return the share of right answers: ``sklearn.metrics.accuracy_score``.

    Args:
        truth: (answers,) indices of the right options.
        given: (answers,) indices of the answered options.
    """
    return float(metrics.accuracy_score(truth, given))


def balanced_accuracy(truth: Ints, given: Ints) -> float:
    """Return the mean share of right answers over the options that were ever right.

    ``sklearn.metrics.balanced_accuracy_score``, which is the macro average of
    ``sklearn.metrics.recall_score`` over those options; by that name it does not warn about
    options that were answered and never right.
    """
    labels = np.unique(truth)
    return float(
        metrics.recall_score(truth, given, labels=labels, average="macro", zero_division=0.0)
    )


def confusion(truth: Ints, given: Ints, options: int) -> Ints:
    """Return how often each option was answered (column) where each was right (row).

    ``sklearn.metrics.confusion_matrix``.
    """
    matrix: Any = metrics.confusion_matrix(truth, given, labels=np.arange(options))
    return np.asarray(matrix, dtype=np.int64)


def log_loss(truth: Ints, probabilities: Floats) -> float:
    """Return the mean of ``-ln p(right option)``, nats: ``sklearn.metrics.log_loss``.

    Probabilities are held to at least 2.2e-16, as there. 0 where there is one option only.
    """
    options = probabilities.shape[1]
    if options == 1:
        return 0.0
    return float(metrics.log_loss(truth, probabilities, labels=np.arange(options)))


def brier(truth: Ints, probabilities: Floats) -> float:
    """Return the mean of ``sum((p_i - y_i)^2)`` over all options, 0 to 2.

    ``sklearn.metrics.brier_score_loss`` with ``scale_by_half=False``: Brier's own definition
    (Monthly Weather Review 78, 1950), the same for two options and for more.
    """
    options = probabilities.shape[1]
    if options == 1:
        return 0.0
    return float(
        metrics.brier_score_loss(
            truth,
            probabilities[:, 1] if options == 2 else probabilities,
            labels=np.arange(options),
            scale_by_half=False,
        )
    )


def log_losses(truth: Ints, probabilities: Floats) -> Floats:
    """Return ``-ln p(right option)`` of each answer, whose mean is :func:`log_loss`."""
    right = probabilities[np.arange(len(truth)), truth]
    return np.asarray(-np.log(np.clip(right, _LEAST, 1 - _LEAST)), dtype=np.float64)


def briers(truth: Ints, probabilities: Floats) -> Floats:
    """Return ``sum((p_i - y_i)^2)`` of each answer, whose mean is :func:`brier`."""
    right = np.eye(probabilities.shape[1])[truth]
    return np.asarray(((probabilities - right) ** 2).sum(axis=1), dtype=np.float64)


def near_ties(probabilities: Floats, margin: float) -> Flags:
    """Return whether the two best options of each answer are closer than *margin*."""
    if probabilities.shape[1] == 1:
        return np.zeros(len(probabilities), dtype=np.bool_)
    best = np.sort(probabilities, axis=1)[:, -2:]
    return np.asarray(best[:, 1] - best[:, 0] < margin, dtype=np.bool_)
