"""Calibration: known temperatures are found again, and promises are kept on new cases."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.factories import make_choice, make_provenance
from tests.unit.quality.bench import SET, draw_results, make_header, make_result
from worker.decision.policy_file import read_policy
from worker.decision.scores import Scores, tempered
from worker.errors import UsageError
from worker.quality.answered import gather
from worker.quality.calibration import Fitted, Goal, calibrate
from worker.quality.fitted_policy import policy_of, write_policy
from worker.quality.run_file import AskedQuestion, Given, Header
from worker.quality.temperature import Labelled, fit_temperature, temper
from worker.quality.thresholds import (
    Sample,
    abstain_for_error,
    accept_for_coverage,
    accept_for_error,
    candidates,
    least_accepted,
    lower_bound,
    upper_bound,
)
from worker.rulebook import binding_of

ONE = {"q": AskedQuestion(type="choice", options=("a", "b", "c"))}


def header(**questions: AskedQuestion) -> Header:
    return make_header(questions=questions or ONE)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7, 4.0])
def test_a_known_temperature_is_found_again(temperature: float) -> None:
    """Within 5 % on 20,000 cases."""
    rng = np.random.default_rng(11)
    logits = rng.normal(scale=1.5, size=(20_000, 4))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (true.cumsum(axis=1) < rng.random((len(true), 1))).sum(axis=1)
    found = fit_temperature([Labelled(temper(true, 1 / temperature), truth)])
    assert pytest.approx(temperature, rel=0.05) == found


def test_answers_that_are_all_right_have_no_temperature() -> None:
    """Nor has a single option, or pure noise: the search ends at its bounds."""
    sure = np.array([[0.9, 0.1]] * 60)
    assert fit_temperature([Labelled(sure, np.zeros(60, dtype=np.int64))]) is None
    assert fit_temperature([Labelled(sure, np.arange(60) % 2)]) is None
    assert fit_temperature([Labelled(np.ones((60, 1)), np.zeros(60, dtype=np.int64))]) is None


def test_many_answers_are_tempered_as_the_worker_tempers_one() -> None:
    """To rounding, also where an option has no probability."""
    rows = [(0.7, 0.2, 0.1), (1.0, 0.0, 0.0), (1e-300, 0.5, 0.5)]
    for temperature in (0.4, 1.0, 2.5):
        ours = [tempered(Scores(row, 1.0), temperature).probabilities for row in rows]
        assert pytest.approx(np.array(ours), abs=1e-12) == temper(np.array(rows), temperature)


@pytest.mark.parametrize(("hits", "count"), [(0, 30), (3, 200), (30, 30), (17, 18)])
def test_bounds_are_those_of_clopper_and_pearson(hits: int, count: int) -> None:
    """As scipy's exact binomial test has them."""
    for alternative, bound in (("less", upper_bound), ("greater", lower_bound)):
        exact = stats.binomtest(hits, count, alternative=alternative).proportion_ci(0.95)
        wanted = exact.high if alternative == "less" else exact.low
        assert pytest.approx(wanted, abs=1e-9) == bound(hits, count, 0.05)


def test_it_takes_so_many_cases_to_promise_anything() -> None:
    """With one case less, not even answers that are all right keep the promise."""
    least = least_accepted(0.02, 20, 0.05)
    assert upper_bound(0, least, 0.05 / 20) <= 0.02 < upper_bound(0, least - 1, 0.05 / 20)


def _drawn(rng: np.random.Generator, count: int) -> tuple[Any, Any, Any]:
    """Return distributions that lie about hard cases, right options, and each answer's true risk.

    No temperature repairs that: what keeps the promise is the test, not the fit.
    """
    logits = rng.normal(scale=2.5, size=(count, 3))
    given = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    noise = 0.25 * rng.random((count, 1)) ** 4
    true = (1 - noise) * given + noise / 3
    truth = (true.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1)
    risk = 1 - true[np.arange(count), given.argmax(axis=1)]
    return temper(given, 0.6), np.minimum(truth, 2), risk


def test_thresholds_keep_their_promise_on_new_cases() -> None:
    """In at least 90 of 100 repetitions at a delta of 0.05, with something accepted in most."""
    max_error, kept, chosen = 0.1, 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        fit, fit_truth, _ = _drawn(rng, 400)
        temperature = fit_temperature([Labelled(fit, fit_truth)]) or 1.0
        tried = candidates(temper(fit, temperature).max(axis=1))
        check, truth, _ = _drawn(rng, 2500)
        strength = temper(check, temperature).max(axis=1)
        sample = Sample(strength, check.argmax(axis=1) == truth)
        accept = accept_for_error(sample, tried, max_error, 0.05)
        fresh, _, risk = _drawn(rng, 20_000)
        if accept is None:
            kept += 1  # nothing is accepted, and nothing is wrong
            continue
        chosen += 1
        accepted = temper(fresh, temperature).max(axis=1) >= accept.threshold
        kept += bool(risk[accepted].mean() <= max_error)
    assert kept >= 90
    assert chosen >= 90


def test_without_a_correction_the_promise_would_be_broken() -> None:
    """Twenty looks at answers that are all at the limit: few may be lucky, with the correction."""
    rng = np.random.default_rng(2)
    lucky = 0
    for _ in range(200):
        strength = rng.random(500)
        sample = Sample(strength, rng.random(500) >= 0.1)
        tried = [1 - place / 20 for place in range(1, 21)]
        lucky += accept_for_error(sample, tried, 0.1, 0.05) is not None
    assert lucky <= 10


def test_a_threshold_for_coverage_accepts_enough_and_no_more() -> None:
    """The highest that surely does."""
    rng = np.random.default_rng(5)
    strength = rng.random(4000)
    sample = Sample(strength, np.ones(4000, dtype=np.bool_))
    accept = accept_for_coverage(sample, candidates(rng.random(1000)), 0.7, 0.05)
    assert accept is not None
    assert 0.7 <= accept.bound < accept.share < 0.8
    assert None is accept_for_coverage(sample, [0.9, 0.5], 0.7, 0.05)


def test_what_is_mostly_wrong_is_abstained_from() -> None:
    """Under the highest threshold for which that is sure, and never what is accepted."""
    rng = np.random.default_rng(5)
    strength = rng.random(4000)
    sample = Sample(strength, rng.random(4000) < strength)
    tried = candidates(rng.random(1000))
    found = abstain_for_error(sample, tried, 0.5, 0.05)
    assert found is not None
    assert 0.8 <= found.threshold <= 1.0  # the mean of uniform errors under t is 1 - t / 2
    lower = abstain_for_error(sample, tried, 0.5, 0.05, at_most=0.3)
    assert lower is not None
    assert 0.2 < lower.threshold <= 0.3
    assert None is abstain_for_error(sample, tried, 0.999, 0.05)


def test_a_run_is_calibrated_by_question() -> None:
    """On one part; the other, on which it is not fitted, shows the better probabilities."""
    results = draw_results(np.random.default_rng(9), 3000, temperature=2.5)
    found = calibrate(header(), results, Goal(max_error=0.2))
    fitted = found.questions["q"]

    assert pytest.approx(2.5, rel=0.15) == fitted.temperature
    assert {"choice": fitted.temperature} == found.types
    assert 3000 == fitted.fit_cases + fitted.check_cases
    assert pytest.approx(900, abs=100) == fitted.fit_cases
    assert fitted.after.log_loss < fitted.before.log_loss
    assert fitted.after.ece < 3 * fitted.after.ece_noise_floor < fitted.before.ece
    assert fitted.accept.bound <= 0.2
    assert fitted.accept.errors / fitted.accept.count < fitted.accept.bound
    assert found == calibrate(header(), results, Goal(max_error=0.2))
    other = calibrate(header(), results, Goal(max_error=0.2, seed=1))
    assert other.questions["q"].fit_cases != fitted.fit_cases or other != found


def test_a_question_with_few_cases_takes_its_types_temperature() -> None:
    """And a type with few cases none; cases with the same state are in the same part."""
    results = draw_results(np.random.default_rng(9), 400, temperature=2.5)
    rare = [
        one.model_copy(
            update={
                "answers": {**one.answers, "r": one.answers["q"], "s": one.answers["q"]},
                "expected": {**one.expected, **({"r": one.expected["q"]} if n < 60 else {})},
                "state_sha256": "the same" if n < 60 else one.state_sha256,
            }
        )
        for n, one in enumerate(results)
    ]
    asked = {key: AskedQuestion(type="choice", options=("a", "b", "c")) for key in "qr"}
    asked["s"] = AskedQuestion(type="score", options=("0", "1", "2"))
    found = calibrate(header(**asked), rare, Goal(max_error=0.2)).questions

    assert ("question", "nothing") == (found["q"].fitted_on, found["s"].fitted_on)
    assert sorted([0, 60]) == sorted([found["r"].fit_cases, found["r"].check_cases])
    assert None is found["r"].accept
    assert None is found["s"].accept


def test_what_was_calibrated_already_is_not_calibrated_again() -> None:
    """Nor what has no right answers."""
    given = Given(probabilities=(0.5, 0.3, 0.2), temperature=2.0)
    warm = make_result("a", {}, {"q": 0}).model_copy(update={"answers": {"q": given}})
    with pytest.raises(UsageError, match="evaluate without it"):
        calibrate(header(), [warm], Goal(max_error=0.2))
    with pytest.raises(UsageError, match="too few cases"):
        calibrate(header(), [make_result("a", {"q": (0.5, 0.3, 0.2)}, {})], Goal(max_error=0.2))


@pytest.mark.parametrize("name", ["policy.yaml", "policy.json"])
def test_a_policy_file_decides_as_the_calibration_found(name: str, tmp_path: Path) -> None:
    """Read back it is the same: temperatures, thresholds, and what it is bound to."""
    results = draw_results(np.random.default_rng(9), 3000, temperature=2.5)
    found = calibrate(header(), results, Goal(max_error=0.2))
    bound = binding_of(make_provenance())
    policy = policy_of(found, header(), bound, "desk-3", "Fitted: to 3000 cases, 12e5 of them.")
    read = read_policy(name, write_policy(policy, name))

    assert policy == read
    assert policy.profile().sha256 == read.profile().sha256
    assert {"desk@3": SET.sha256()} == read.bound_to.question_sets
    assert bound.prompt == read.bound_to.prompt
    profile, fitted = read.profile(), found.questions["q"]
    question = make_choice(criteria={"a": None, "b": None, "c": None})
    assert pytest.approx(fitted.temperature, abs=1e-6) == profile.temperature(
        "q", question, "desk@3"
    )
    share = _accepted(results, profile, fitted)
    assert pytest.approx(fitted.accept.share, abs=0.03) == share


def _accepted(results: Any, profile: Any, fitted: Fitted) -> float:
    question = make_choice(criteria={"a": None, "b": None, "c": None})
    rows = gather("q", 3, results).probabilities.tolist()
    verdicts = [
        profile.decide(
            "q", question, tempered(Scores(tuple(row), 1.0), fitted.temperature), "desk@3"
        )
        for row in rows
    ]
    return sum(verdict.disposition == "accept" for verdict in verdicts) / len(rows)
