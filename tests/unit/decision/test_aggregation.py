"""Answers about a long state come of the answers about its windows, in a way that is told."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_choice, make_noul, make_score
from worker.decision.aggregation import aggregate
from worker.decision.overflow import Aggregation, NoulAggregation
from worker.decision.question import Question
from worker.decision.scores import Scores, choice_confidence, score_confidence, softmax

CHOICE = make_choice(criteria=dict.fromkeys("abc"))
QUESTIONS: tuple[Question, ...] = (CHOICE, make_score(), make_noul())


@st.composite
def cases(draw: st.DrawFn) -> tuple[Question, list[Scores]]:
    """A question of any type, and its scores in one to eight windows."""
    question = draw(st.sampled_from(QUESTIONS))
    count = len(question.options())
    logits = st.lists(st.floats(-800, 800), min_size=count, max_size=count)
    windows = draw(st.lists(logits, min_size=1, max_size=8))
    return question, [Scores(softmax(one), draw(st.floats(0, 1)), True) for one in windows]


hows = st.tuples(st.sampled_from(get_args(Aggregation)), st.sampled_from(get_args(NoulAggregation)))


def nouls(*true: float) -> list[Scores]:
    return [Scores((p, 1 - p), 0.5) for p in true]


def true_of(aggregation: NoulAggregation, *true: float) -> float:
    return aggregate(make_noul(), nouls(*true), "mean", aggregation).probabilities[0]


@given(cases(), hows)
def test_what_comes_of_windows_is_a_distribution(
    case: tuple[Question, list[Scores]], how: tuple[Aggregation, NoulAggregation]
) -> None:
    """Sums to one, in range, with a confidence and a label mass in range."""
    scores = aggregate(*case, *how)
    confidences = choice_confidence(scores.probabilities), score_confidence(scores.probabilities)

    assert abs(math.fsum(scores.probabilities) - 1) <= 1e-12
    assert all(0 <= p <= 1 for p in (*scores.probabilities, scores.label_mass, *confidences))


@given(cases(), hows)
def test_equal_windows_change_nothing(
    case: tuple[Question, list[Scores]], how: tuple[Aggregation, NoulAggregation]
) -> None:
    """But for the noisy or, by which two windows that may be true are likelier so than one."""
    question, [first, *_] = case
    scores = aggregate(question, [first] * 5, *how)
    if question.type == "noul" and how[1] == "noisy_or":
        assert scores.probabilities[0] >= first.probabilities[0] - 1e-12
    else:
        assert pytest.approx(first.probabilities, abs=1e-12) == scores.probabilities


@given(cases(), hows)
def test_the_order_of_windows_counts_in_ties_only(
    case: tuple[Question, list[Scores]], how: tuple[Aggregation, NoulAggregation]
) -> None:
    """A window's place in the state is no reason to believe it."""
    question, windows = case
    scores, turned = aggregate(question, windows, *how), aggregate(question, windows[::-1], *how)
    if scores.window is None or turned.window == len(windows) - 1 - scores.window:
        assert pytest.approx(scores.probabilities, abs=1e-12) == turned.probabilities


def test_the_surest_window_of_a_choice_decides() -> None:
    """Its probabilities, label mass and sign are those of the answer, which names it."""
    windows = [
        Scores((0.5, 0.3, 0.2), 0.9),
        Scores((0.1, 0.2, 0.7), 0.25, False),
        Scores((0.7, 0.2, 0.1), 0.5),
    ]

    assert Scores((0.1, 0.2, 0.7), 0.25, False, window=1) == aggregate(
        CHOICE, windows, "max", "mean"
    )


def test_the_surest_window_of_a_score_knows_distance() -> None:
    """Confidence of a score, not its peak: doubt about a neighbour is a smaller doubt."""
    windows = [Scores((0.3, 0.0, 0.7), 0.9), Scores((0.0, 0.35, 0.65), 0.9)]

    assert 1 == aggregate(make_score(), windows, "max", "mean").window


def test_one_place_is_enough_for_a_noul() -> None:
    """With max the window where true is likeliest counts, however sure others are of false."""
    scores = aggregate(make_noul(), nouls(0.001, 0.9, 0.002), "mean", "max")

    assert (0.9, 1) == (scores.probabilities[0], scores.window)


def test_the_mean_is_that_of_the_distributions() -> None:
    """Every window counts the same; one whose likeliest token was no label shows."""
    windows = [Scores((0.5, 0.3, 0.2), 0.9), Scores((0.1, 0.1, 0.8), 0.3, False)]
    scores = aggregate(CHOICE, windows, "mean", "max")

    assert pytest.approx((0.3, 0.2, 0.5)) == scores.probabilities
    assert pytest.approx(0.6) == scores.label_mass
    assert (False, None) == (scores.top_is_label, scores.window)


def test_a_noisy_or_is_true_unless_every_window_is_false() -> None:
    """By hand: one minus the product; and it grows with every window."""
    assert pytest.approx(1 - 0.9 * 0.8 * 0.5) == true_of("noisy_or", 0.1, 0.2, 0.5)
    assert pytest.approx(1 - 0.95**10) == true_of("noisy_or", *[0.05] * 10)
    assert (1.0, 0.0) == (true_of("noisy_or", 0.2, 1.0), true_of("noisy_or", 0.0, 0.0))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_the_aggregations_of_a_noul_are_ordered(true: list[float]) -> None:
    """The mean is never above the maximum, the maximum never above the noisy or."""
    mean, most, any_true = (true_of(how, *true) for how in ("mean", "max", "noisy_or"))

    assert mean <= most + 1e-12
    assert most <= any_true + 1e-12
