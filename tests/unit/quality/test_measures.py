"""Measures: each against a library that has it, or against its formula in plain numbers."""

import math

import numpy as np
import pytest
from sklearn import metrics

from worker.quality.bootstrap import Draw, intervals
from worker.quality.measures import (
    Flags,
    Floats,
    Ints,
    accuracy,
    balanced_accuracy,
    brier,
    briers,
    confusion,
    log_loss,
    log_losses,
    near_ties,
    predicted,
)
from worker.quality.reliability import ece, ece_noise_floor, reliability
from worker.quality.selective import aurc, risk_coverage

CLOSE = 1e-9


def answers(options: int, count: int = 331, seed: int = 5) -> tuple[Ints, Floats]:
    """Return right options and distributions that know something about them."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, options, count)
    logits = rng.normal(size=(count, options)) + 1.5 * np.eye(options)[truth]
    weights = np.exp(logits)
    return truth, weights / weights.sum(axis=1, keepdims=True)


def sureness(options: int = 4) -> tuple[Floats, Flags]:
    truth, probabilities = answers(options)
    return probabilities.max(axis=1), predicted(probabilities) == truth


@pytest.mark.parametrize("options", [2, 3, 7])
def test_proper_scores_agree_with_their_formulas(options: int) -> None:
    """To 1e-9: log loss and Brier score in plain numbers, and as means of the single answers'."""
    truth, probabilities = answers(options)
    rows = [[float(p) for p in row] for row in probabilities]
    plain_log = math.fsum(-math.log(row[y]) for row, y in zip(rows, truth, strict=True))
    plain_brier = math.fsum(
        math.fsum((p - (place == y)) ** 2 for place, p in enumerate(row))
        for row, y in zip(rows, truth, strict=True)
    )
    for found, plain in (
        (log_loss(truth, probabilities), plain_log / len(rows)),
        (log_losses(truth, probabilities).mean(), plain_log / len(rows)),
        (brier(truth, probabilities), plain_brier / len(rows)),
        (briers(truth, probabilities).mean(), plain_brier / len(rows)),
    ):
        assert pytest.approx(plain, abs=CLOSE) == found


def test_counts_agree_with_scikit_learn() -> None:
    """Accuracy, balanced accuracy and the confusion matrix, whose rows are what was right."""
    truth, probabilities = answers(4)
    given = predicted(probabilities)
    matrix = confusion(truth, given, 4)
    assert pytest.approx(metrics.accuracy_score(truth, given), abs=CLOSE) == accuracy(truth, given)
    assert pytest.approx(metrics.balanced_accuracy_score(truth, given), abs=CLOSE) == (
        balanced_accuracy(truth, given)
    )
    assert int(((truth == 1) & (given == 2)).sum()) == matrix[1, 2]
    assert len(truth) == matrix.sum()


def test_an_option_that_is_never_right_does_not_count() -> None:
    """In balanced accuracy; and a certain answer that is wrong has a finite log loss."""
    truth, given = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1])
    assert 0.75 == balanced_accuracy(truth, given)
    certain = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert math.isfinite(log_loss(np.array([0, 0]), certain))
    assert pytest.approx(log_loss(np.array([0, 0]), certain), abs=CLOSE) == (
        log_losses(np.array([0, 0]), certain).mean()
    )


def test_a_single_option_is_always_right() -> None:
    """And loses nothing."""
    truth, only = np.zeros(3, dtype=np.int64), np.ones((3, 1))
    assert (0.0, 0.0) == (log_loss(truth, only), brier(truth, only))
    assert not near_ties(only, 0.05).any()


def test_the_calibration_error_agrees_with_its_formula() -> None:
    """To 1e-9, with bins of equal mass counted out one by one."""
    confidence, right = sureness()
    pairs = sorted(zip(confidence.tolist(), right.tolist(), strict=True), key=lambda pair: pair[0])
    sizes = [len(pairs) // 15 + (place < len(pairs) % 15) for place in range(15)]
    plain, left = 0.0, iter(pairs)
    for size in sizes:
        some = [next(left) for _ in range(size)]
        gap = math.fsum(sure for sure, _ in some) / size - sum(ok for _, ok in some) / size
        plain += size / len(pairs) * abs(gap)
    assert pytest.approx(plain, abs=CLOSE) == ece(confidence, right)
    bins = reliability(confidence, right)
    assert sizes == [one.count for one in bins]
    assert pytest.approx(plain, abs=CLOSE) == sum(
        one.count / len(pairs) * abs(one.accuracy - one.confidence) for one in bins
    )


def test_the_noise_floor_is_what_calibrated_answers_show() -> None:
    """Their own error lies about it; answers that are too sure lie far above."""
    rng = np.random.default_rng(3)
    confidence = rng.uniform(0.5, 1.0, 2000)
    floor = ece_noise_floor(confidence, seed=1)
    assert 0.5 * floor < ece(confidence, rng.random(2000) < confidence) < 2 * floor
    assert ece(confidence, rng.random(2000) < confidence - 0.2) > 5 * floor
    assert floor == ece_noise_floor(confidence, seed=1)


def test_the_area_under_risk_and_coverage_agrees_with_its_formula() -> None:
    """To 1e-9, adding up one answer after the other."""
    confidence, right = sureness()
    ordered = [right[place] for place in np.argsort(-confidence, kind="stable")]
    risks = [ordered[: i + 1].count(False) / (i + 1) for i in range(len(ordered))]
    assert pytest.approx(math.fsum(risks) / len(risks), abs=CLOSE) == aurc(confidence, right)
    curve = risk_coverage(confidence, right)
    assert pytest.approx(risks, abs=CLOSE) == [point.risk for point in curve]
    assert 1.0 == curve[-1].coverage


def test_equal_confidence_counts_as_if_in_random_order() -> None:
    """The area does not depend on the order of the cases, and is the mean over all orders."""
    confidence = np.array([0.9, 0.5, 0.5, 0.5])
    right = np.array([True, False, True, True])
    orders = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    areas = [np.mean(np.cumsum(wrong) / np.arange(1, 5)) for wrong in orders]
    assert pytest.approx(np.mean(areas), abs=CLOSE) == aurc(confidence, right)
    assert [0.25, 1.0] == [point.coverage for point in risk_coverage(confidence, right)]


def test_near_ties_are_told() -> None:
    """By the distance between the two best."""
    probabilities = np.array([[0.48, 0.5, 0.02], [0.2, 0.7, 0.1]])
    assert [True, False] == near_ties(probabilities, 0.05).tolist()


def test_intervals_are_those_of_drawing_again() -> None:
    """About as wide as the theory says, the same for the same seed, around the value."""
    rng = np.random.default_rng(8)
    hits = rng.random(400) < 0.7

    def values(drawn: Ints) -> dict[str, float]:
        return {"accuracy": float(hits[drawn].mean())}

    low, high = intervals(np.arange(400), values, Draw(seed=1))["accuracy"]
    half = 1.96 * math.sqrt(hits.mean() * (1 - hits.mean()) / 400)
    assert pytest.approx(hits.mean() - half, abs=0.01) == low
    assert pytest.approx(hits.mean() + half, abs=0.01) == high
    assert (low, high) == intervals(np.arange(400), values, Draw(seed=1))["accuracy"]


def test_answers_of_one_case_are_drawn_together() -> None:
    """Ten copies of a case say no more than one: the interval is not the narrower for it."""
    hits = np.random.default_rng(8).random(100) < 0.7
    copies = np.repeat(hits, 10)
    one = intervals(np.arange(100), lambda drawn: {"a": float(hits[drawn].mean())}, Draw())
    ten = intervals(
        np.repeat(np.arange(100), 10), lambda drawn: {"a": float(copies[drawn].mean())}, Draw()
    )
    assert one["a"] == ten["a"]
