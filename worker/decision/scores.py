"""From label logits to probabilities, and from probabilities to confidence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from worker.decision.asked import Asked, View


@dataclass(frozen=True, slots=True)
class Reading:
    """What the engine read at the last token of one branch.

    Attributes:
        label_logits: one for each label, in the order the labels were given.
        log_sum_exp: logarithm of the sum of exponentials over the whole vocabulary.
        top_token: the id of the most likely token of the whole vocabulary.
    """

    label_logits: tuple[float, ...]
    log_sum_exp: float
    top_token: int


@dataclass(frozen=True, slots=True)
class Scores:
    """The distribution over one question's options.

    Attributes:
        probabilities: one for each option in request order; they sum to 1.
        label_mass: share of the model's whole distribution that fell on the labels, 0 to 1.
        top_is_label: whether the likeliest token of the whole vocabulary was a label, in every
            view. Where it was not, the model would have said something else.
        window: the one window of a long state whose scores these are, counted from 0; None: they
            come of the whole state, or of all its windows.
    """

    probabilities: tuple[float, ...]
    label_mass: float
    top_is_label: bool = True
    window: int | None = None

    @property
    def best(self) -> int:
        """The index of the most likely option; the first in request order on a tie."""
        return self.probabilities.index(max(self.probabilities))


def softmax(logits: Sequence[float], temperature: float = 1.0) -> tuple[float, ...]:
    """Return ``exp(x/T) / sum(exp(x/T))``, shifted by the maximum so that nothing overflows.

    Where every logit is minus infinity, nothing is known, and all are equally likely.
    """
    top = max(logits)
    if top == -math.inf:
        return (1 / len(logits),) * len(logits)
    weights = [math.exp((logit - top) / temperature) for logit in logits]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def tempered(scores: Scores, temperature: float) -> Scores:
    """Return scores with ``p_i^(1/T) / sum(p^(1/T))``, which is ``softmax(ln(p) / T)``.

    Over 1 flattens, under 1 sharpens; the order of the options stays. Temperature scaling, Guo et
    al., "On calibration of modern neural networks", ICML 2017, on the distribution as it is
    answered: of several orders, their mean.

    Args:
        scores: of one question.
        temperature: over zero; at 1 all bits stay.
    """
    if temperature == 1.0:
        return scores
    logits = [math.log(p) if p > 0 else -math.inf for p in scores.probabilities]
    return replace(scores, probabilities=softmax(logits, temperature))


def score_views(asked: Asked, readings: Sequence[Reading]) -> Scores:
    """Turn the readings of a question's views into scores.

    Args:
        asked: the question.
        readings: one for each of its views, of all label tokens in order.
    """
    views = tuple(zip(asked.views, readings, strict=True))
    distributions = [_distribution(asked, view, reading) for view, reading in views]
    return Scores(
        probabilities=tuple(
            math.fsum(column) / len(views) for column in zip(*distributions, strict=True)
        ),
        label_mass=math.fsum(_mass(reading) for _, reading in views) / len(views),
        top_is_label=all(reading.top_token in view.label_tokens for view, reading in views),
    )


def _distribution(asked: Asked, view: View, reading: Reading) -> tuple[float, ...]:
    """Return the probability of each option in request order."""
    logits = iter(reading.label_logits)
    shown = softmax([max(next(logits) for _ in label) for label in view.labels], asked.temperature)
    if asked.rates:
        true = expected_level(shown) / (len(shown) - 1)
        return true, 1.0 - true
    return tuple(p for _, p in sorted(zip(view.order, shown, strict=True)))


def _mass(reading: Reading) -> float:
    top = max(reading.label_logits)
    if top == -math.inf:
        return 0.0
    labels = top + math.log(math.fsum(math.exp(x - top) for x in reading.label_logits))
    return min(1.0, math.exp(labels - reading.log_sum_exp))


def choice_confidence(probabilities: Sequence[float]) -> float:
    """Return ``(max p - 1/n) / (1 - 1/n)``, the normalised peak; 1 for a single option."""
    count = len(probabilities)
    if count == 1:
        return 1.0
    return _unit((max(probabilities) - 1 / count) / (1 - 1 / count))


def score_confidence(probabilities: Sequence[float]) -> float:
    """Return ``max(0, 1 - sum(p_i * |i - mode|) / D)``; 1 for a single level.

    D is the mean distance of the uniform distribution to its centre,
    ``(1/n) * sum(|i - (n-1)/2|)``.
    """
    count = len(probabilities)
    if count == 1:
        return 1.0
    mode = list(probabilities).index(max(probabilities))
    spread = math.fsum(p * abs(level - mode) for level, p in enumerate(probabilities))
    uniform = math.fsum(abs(level - (count - 1) / 2) for level in range(count)) / count
    return _unit(1 - spread / uniform)


def expected_level(probabilities: Sequence[float]) -> float:
    """Return ``sum(i * p_i)``."""
    expected = math.fsum(level * p for level, p in enumerate(probabilities))
    return min(expected, len(probabilities) - 1.0)  # rounding may pass the top by an ulp


def _unit(value: float) -> float:
    """Return *value* held to 0..1, which rounding may have left by an ulp."""
    return min(1.0, max(0.0, value))
