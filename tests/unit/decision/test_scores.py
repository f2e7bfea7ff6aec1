"""From label logits to probabilities, and from probabilities to confidence."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.decision.asked import Asked, View
from worker.decision.scores import (
    Reading,
    Scores,
    choice_confidence,
    expected_level,
    score_confidence,
    score_views,
    softmax,
)

logits = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=255)
levels = st.lists(st.floats(-200, 200), min_size=1, max_size=10)
temperatures = st.floats(0.01, 100)


def in_orders(*orders: tuple[int, ...], temperature: float = 1.0, rates: bool = False) -> Asked:
    """Return a question with these views; the label at place n is token n."""
    tokens = tuple((place,) for place in range(9 if rates else len(orders[0])))
    return Asked(tuple(View((), tokens, order) for order in orders), temperature, rates)


def score_reading(reading: Reading, temperature: float = 1.0) -> Scores:
    """Score a question in one view, as given."""
    given_order = tuple(range(len(reading.label_logits)))
    return score_views(in_orders(given_order, temperature=temperature), [reading])


@st.composite
def several_views(draw: st.DrawFn) -> tuple[Asked, list[Reading]]:
    """A question of any shape, in one to four orders, and readings of its views."""
    options = draw(st.integers(1, 12))
    orders = draw(st.lists(st.permutations(range(options)), min_size=1, max_size=4))
    sizes = draw(st.lists(st.integers(1, 3), min_size=options, max_size=options))
    labels = tuple(tuple(range(size)) for size in sizes)
    asked = Asked(
        tuple(View((), labels, tuple(order)) for order in orders), draw(temperatures), rates=False
    )
    logit = st.floats(-1e4, 1e4) | st.just(-math.inf)
    many = st.lists(logit, min_size=sum(sizes), max_size=sum(sizes))
    readings = [draw(many) for _ in orders]
    return asked, [Reading(tuple(one), max(*one, 0.0) + 9.0, 0) for one in readings]


@given(logits, temperatures)
def test_probabilities_sum_to_one(values: list[float], temperature: float) -> None:
    """However far apart the logits are, nothing overflows and the probabilities sum to one."""
    probabilities = softmax(values, temperature)

    assert len(values) == len(probabilities)
    assert all(0 <= p <= 1 for p in probabilities)
    assert abs(math.fsum(probabilities) - 1) <= 1e-12


@given(logits)
def test_probabilities_keep_the_order_of_the_logits(values: list[float]) -> None:
    """A higher logit never gives a lower probability, and each keeps its place."""
    probabilities = softmax(values)
    ascending = sorted(range(len(values)), key=values.__getitem__)

    assert sorted(probabilities) == [probabilities[index] for index in ascending]


def test_softmax_is_the_known_formula() -> None:
    """exp(x/T) over its sum, checked by hand; a higher temperature flattens."""
    assert pytest.approx((0.25, 0.75), abs=1e-15) == softmax((0.0, math.log(3)))
    assert pytest.approx((0.1, 0.9), abs=1e-15) == softmax((1.0, 1.0 + math.log(3)), 0.5)
    assert (0.5, 0.5) == softmax((7.0, 7.0))


def test_the_label_mass_is_the_labels_share_of_the_whole_vocabulary() -> None:
    """Label mass compares with all tokens, at temperature one, whatever temperature is used."""
    reading = Reading((math.log(2), math.log(4)), log_sum_exp=math.log(8), top_token=0)

    assert pytest.approx(0.75, abs=1e-12) == score_reading(reading).label_mass
    assert pytest.approx(0.75, abs=1e-12) == score_reading(reading, 3.0).label_mass
    assert pytest.approx((1 / 3, 2 / 3), abs=1e-12) == score_reading(reading).probabilities
    assert softmax(reading.label_logits, 3.0) == score_reading(reading, 3.0).probabilities


@given(logits, st.floats(0, 50))
def test_the_label_mass_is_a_share(values: list[float], rest: float) -> None:
    """Rounding never takes the label mass out of 0 to 1."""
    log_sum_exp = max(values) + math.log(math.fsum(math.exp(x - max(values)) for x in values))
    all_of_it = score_reading(Reading(tuple(values), log_sum_exp, 0)).label_mass
    some_of_it = score_reading(Reading(tuple(values), log_sum_exp + rest, 0)).label_mass

    assert 0 <= some_of_it <= all_of_it <= 1
    assert pytest.approx(1, abs=1e-9) == all_of_it


@given(logits)
def test_the_first_option_wins_a_tie(values: list[float]) -> None:
    """Among equals the first in request order is best."""
    top = max(values)
    scores = Scores(softmax([*values, top, top]), 1.0)

    assert scores.probabilities.index(max(scores.probabilities)) == scores.best
    assert 0 == Scores((0.5, 0.5), 1.0).best
    assert 1 == Scores((0.2, 0.4, 0.4), 1.0).best


@given(levels)
def test_confidence_is_between_zero_and_one(values: list[float]) -> None:
    """Both confidences stay in 0 to 1, rounding included."""
    probabilities = softmax(values)

    assert 0 <= choice_confidence(probabilities) <= 1
    assert 0 <= score_confidence(probabilities) <= 1


def test_a_uniform_choice_has_no_confidence() -> None:
    """Nothing preferred is zero, everything on one option is one, for any number of options."""
    for count in range(2, 256):
        certain = (*[0.0] * (count - 1), 1.0)
        assert pytest.approx(0, abs=1e-12) == choice_confidence([1 / count] * count)
        assert (1, 1) == (choice_confidence(certain), score_confidence(certain))


def test_confidence_is_that_of_the_reference() -> None:
    """The reference numbers of System One's own adapter and of llama.cpp's README."""
    four = [0.0023, 0.116, 0.6753, 0.2064]

    assert 0.673 == round(score_confidence(four), 3)
    assert 0.567 == round(choice_confidence(four), 3)
    assert pytest.approx(0.925, abs=1e-12) == score_confidence([0, 0.95, 0.05])
    assert pytest.approx(0.925, abs=1e-12) == choice_confidence([0, 0.95, 0.05])


@given(st.floats(0, 1))
def test_both_formulas_agree_on_two_options(p: float) -> None:
    """With two options, the distance to the mode is the normalised peak."""
    pair = (p, 1 - p)

    assert pytest.approx(choice_confidence(pair), abs=1e-9) == score_confidence(pair)


def test_a_single_option_is_certain() -> None:
    """Where only one answer is possible, confidence is one."""
    assert (1.0, 1.0) == (choice_confidence([1.0]), score_confidence([1.0]))
    assert (1.0,) == softmax([-3.5])
    assert 0 == expected_level([1.0])


def test_mass_far_from_the_mode_counts_more() -> None:
    """The score's confidence knows distance: a doubt about the neighbour is a smaller doubt."""
    near = score_confidence([0.0, 0.2, 0.8, 0.0])
    far = score_confidence([0.2, 0.0, 0.8, 0.0])

    assert near > far
    assert choice_confidence([0.0, 0.2, 0.8, 0.0]) == choice_confidence([0.2, 0.0, 0.8, 0.0])
    assert 0 == score_confidence([0.5, 0.0, 0.0, 0.5])


def test_a_score_is_the_expected_level() -> None:
    """The sum of level times probability, levels counted from zero."""
    assert pytest.approx(0.6) == expected_level([0.45, 0.5, 0.05])
    assert 2 == expected_level([0.0, 0.0, 1.0])


@given(levels)
def test_a_score_is_on_its_scale(values: list[float]) -> None:
    """A score lies between the lowest and the highest level."""
    assert 0 <= expected_level(softmax(values)) <= len(values) - 1 + 1e-12


def test_rounding_does_not_leave_the_scale() -> None:
    """A score is never above the highest level, not even by rounding."""
    probabilities = softmax([*[-1e3] * 6, math.log(1.1e-16), 0.0])

    assert expected_level(probabilities) <= 7


@given(several_views())
def test_views_are_averaged_into_a_distribution(case: tuple[Asked, list[Reading]]) -> None:
    """Of any orders, spellings and temperature: sums to one, in range, never NaN."""
    scores = score_views(*case)

    assert abs(math.fsum(scores.probabilities) - 1) <= 1e-12
    confidences = choice_confidence(scores.probabilities), score_confidence(scores.probabilities)
    assert all(0 <= p <= 1 for p in (*scores.probabilities, scores.label_mass, *confidences))


def test_every_order_counts_the_same() -> None:
    """A probability belongs to the option that was shown at the place, whichever place it was."""
    forward = Reading((math.log(3), 0.0), log_sum_exp=math.log(8), top_token=0)
    reversed_ = Reading((0.0, math.log(1.5)), log_sum_exp=math.log(10), top_token=7)
    scores = score_views(in_orders((0, 1), (1, 0)), [forward, reversed_])

    assert pytest.approx(((0.75 + 0.6) / 2, (0.25 + 0.4) / 2)) == scores.probabilities
    assert pytest.approx((0.5 + 0.25) / 2) == scores.label_mass


@given(several_views())
def test_the_order_of_views_does_not_matter(case: tuple[Asked, list[Reading]]) -> None:
    """To the last bit."""
    asked, readings = case
    turned = Asked(asked.views[::-1], asked.temperature)

    assert score_views(asked, readings) == score_views(turned, readings[::-1])


def test_the_likeliest_spelling_counts() -> None:
    """A label of several spellings has the logit of its best one, and the mass of them all."""
    asked = Asked((View((), ((5, 6), (7,)), (0, 1)),))
    reading = Reading((0.0, math.log(3), 0.0), log_sum_exp=math.log(10), top_token=6)
    scores = score_views(asked, [reading])

    assert pytest.approx((0.75, 0.25)) == scores.probabilities
    assert pytest.approx(0.5) == scores.label_mass


def test_a_rating_is_read_as_its_mean() -> None:
    """Nine labels from certainly false to certainly true; true comes first in the answer."""
    certain = Reading((*[-1e3] * 8, 0.0), log_sum_exp=0.0, top_token=8)
    even = Reading((0.0,) * 9, log_sum_exp=math.log(9), top_token=0)
    asked = in_orders((1, 0), rates=True)

    assert pytest.approx((1.0, 0.0)) == score_views(asked, [certain]).probabilities
    assert pytest.approx((0.5, 0.5)) == score_views(asked, [even]).probabilities


def test_the_likeliest_token_should_be_a_label() -> None:
    """In every view; another token means that the model would have said something else."""
    label = Reading((0.0, 0.0), log_sum_exp=1.0, top_token=1)
    other = Reading((0.0, 0.0), log_sum_exp=1.0, top_token=2)
    asked = in_orders((0, 1), (1, 0))

    assert score_views(asked, [label, label]).top_is_label
    assert not score_views(asked, [label, other]).top_is_label
