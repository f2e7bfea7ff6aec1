"""From the scores of a question in each window of a state to its scores for the whole state."""

import math
from collections.abc import Sequence

from worker.decision.overflow import Aggregation, NoulAggregation
from worker.decision.question import Noul, Question, Score
from worker.decision.scores import Scores, choice_confidence, score_confidence


def aggregate(
    question: Question,
    windows: Sequence[Scores],
    aggregation: Aggregation,
    noul_aggregation: NoulAggregation,
) -> Scores:
    """Return the scores of a question about a state that was read in windows.

    Args:
        question: that was asked of each window.
        windows: its scores in each, at least one, in the state's order.
        aggregation: for a choice or score.
        noul_aggregation: for a noul.
    """
    how = noul_aggregation if isinstance(question, Noul) else aggregation
    if how == "max":
        return _surest(question, windows)
    if how == "noisy_or":
        return _any_true(windows)
    return _pooled(windows)


def _surest(question: Question, windows: Sequence[Scores]) -> Scores:
    """Return the scores of one window; the first on a tie.

    For a choice or score that of the highest confidence. For a noul that in which true is
    likeliest: a noul asks for something that one place may say, and every window without that
    place says false for sure (Dietterich, Lathrop and Lozano-Pérez 1997: a bag of instances is
    positive when its most positive instance is).
    """
    sureness = [_sureness(question, scores) for scores in windows]
    place = sureness.index(max(sureness))
    chosen = windows[place]
    return Scores(chosen.probabilities, chosen.label_mass, chosen.top_is_label, window=place)


def _sureness(question: Question, scores: Scores) -> float:
    if isinstance(question, Noul):
        return scores.probabilities[0]
    if isinstance(question, Score):
        return score_confidence(scores.probabilities)
    return choice_confidence(scores.probabilities)


def _pooled(windows: Sequence[Scores]) -> Scores:
    """Return ``p_i = (1/W) * sum_w p_wi``, the linear opinion pool with equal weights (Stone 1961).

    Every window counts the same, however short it is.
    """
    columns = zip(*(scores.probabilities for scores in windows), strict=True)
    return _with_signs(tuple(_mean(column) for column in columns), windows)


def _any_true(windows: Sequence[Scores]) -> Scores:
    """Return ``P(true) = 1 - prod_w P_w(false)``, the noisy or (Pearl 1988, section 4.3.2).

    True when any window makes it true, each by itself. That windows overlap, or are about the
    same text, makes them less independent than that, and the result too high.
    """
    false = math.prod(scores.probabilities[1] for scores in windows)
    return _with_signs((1.0 - false, false), windows)


def _with_signs(probabilities: tuple[float, ...], windows: Sequence[Scores]) -> Scores:
    return Scores(
        probabilities=probabilities,
        label_mass=_mean([scores.label_mass for scores in windows]),
        top_is_label=all(scores.top_is_label for scores in windows),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
