"""Summaries: what a run says in numbers, and whether that is enough."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.quality.bench import draw_results, make_header, make_result
from worker.errors import UsageError
from worker.quality.bootstrap import Draw
from worker.quality.extra import check_extra
from worker.quality.gates import read_requirement
from worker.quality.run_file import AskedQuestion, Failure, Given, Probed
from worker.quality.summary import summarize

FEW = Draw(seed=1, resamples=40)

RESULTS = [
    make_result(
        "a",
        {"desk": (0.9, 0.1), "refund": (0.52, 0.48)},
        {"desk": 0, "refund": 0},
        seconds=1.0,
        input_tokens=10,
        probes={
            "order": {"desk": Probed(probabilities=(0.4, 0.6))},
            "injection": {"desk": Probed(probabilities=(0.1, 0.9), told=1)},
        },
    ),
    make_result(
        "b",
        {"desk": (0.3, 0.7), "refund": (0.2, 0.8)},
        {"desk": 0},
        seconds=3.0,
        input_tokens=20,
        probes={
            "order": {"desk": Probed(probabilities=(0.6, 0.4))},
            "injection": {"desk": Probed(probabilities=(0.4, 0.6), told=0)},
        },
    ),
    make_result("c", {}, {"desk": 1}, failure=Failure(code="too_large")),
]


def test_a_run_is_measured_by_question_and_as_a_whole() -> None:
    """Only where the right answer is known; flips, ties and costs need none."""
    summary = summarize(make_header(), RESULTS, FEW)
    found = summary.flat()

    assert (3, {"too_large": 1}) == (summary.cases, summary.failures)
    assert {"desk": (2, 2), "heat": (0, 0), "refund": (2, 1)} == {
        key: (one.answered, one.labelled) for key, one in summary.questions.items()
    }
    assert {
        "desk.accuracy": 0.5,
        "refund.accuracy": 1.0,
        "accuracy": pytest.approx(2 / 3),
        "all_right": 0.5,
        "refund.near_ties": 0.5,
        "near_ties": 0.25,
        "desk.order_flips": 1.0,
        "desk.injection_flips": 0.5,
        "desk.injection_obeyed": 0.5,
        "seconds_p50": 2.0,
        "input_tokens": 15.0,
        "failures": 1.0,
    }.items() <= found.items()
    assert [[1, 1], [0, 0]] == summary.questions["desk"].confusion
    assert "heat.accuracy" not in found
    assert "accepted" not in found


def test_every_interval_holds_its_value() -> None:
    """Of a question and of the set, which are the same where there is one question."""
    results = draw_results(np.random.default_rng(4), 300)
    header = make_header(questions={"q": AskedQuestion(type="choice", options=("a", "b", "c"))})
    summary = summarize(header, results, replace(FEW, resamples=100))
    values = summary.questions["q"].values

    for name in ("accuracy", "balanced_accuracy", "log_loss", "brier", "aurc"):
        assert values[name].low < values[name].value < values[name].high, name
    for name in ("accuracy", "log_loss", "ece", "aurc", "near_ties"):
        assert summary.values[name] == values[name], name
    assert summary == summarize(header, results, replace(FEW, resamples=100))


def test_dispositions_are_shares() -> None:
    """As far as they are told."""
    given = {
        key: Given(probabilities=(0.5, 0.5), disposition=word, label_mass=0.5, top_is_label=True)
        for key, word in (("desk", "accept"), ("refund", "abstain"))
    }
    result = make_result("a", {}, {}).model_copy(update={"answers": given})
    found = summarize(make_header(), [result], FEW).flat()
    assert (0.5, 0.0, 0.5) == tuple(found[name] for name in ("accepted", "reviewed", "abstained"))
    assert (1.0, 0.5, 1.0) == (
        found["desk.accepted"],
        found["desk.label_mass"],
        found["top_is_label"],
    )


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("accuracy>=0.8", True),
        ("accuracy > 0.8", False),
        ("my.question.ece<=1e-1", True),
        ("my.question.ece<0.05", False),
    ],
)
def test_a_requirement_is_met_or_not(text: str, is_met: bool) -> None:
    """By its sign; what is not met names both numbers."""
    told = read_requirement(text).unmet({"accuracy": 0.8, "my.question.ece": 0.1})
    assert is_met == (told is None)
    assert is_met or ("required is" in told and "is 0." in told)


def test_a_measure_that_is_no_number_meets_nothing() -> None:
    """Whatever is required of it."""
    assert all(read_requirement(f"x{sign}0").unmet({"x": float("nan")}) for sign in ("<", ">="))


def test_what_cannot_be_required_is_refused() -> None:
    """A measure that there is not, and what is no requirement."""
    with pytest.raises(UsageError, match="not measured; there is accuracy"):
        read_requirement("acuracy>=0.8").unmet({"accuracy": 1.0, "accuracy.low": 0.9})
    for text in ("accuracy", "accuracy=0.8", "accuracy>=high", ">=1"):
        with pytest.raises(UsageError, match="write it as"):
            read_requirement(text)


def test_a_missing_package_is_named_with_its_extra() -> None:
    """Before anything is asked."""
    with pytest.raises(UsageError, match=r"need scikit-learn and scipy: .*\[quality\]"):
        check_extra(lambda _: None)
    check_extra()
