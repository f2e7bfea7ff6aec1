"""A policy's temperatures: what they do to an answer, which one counts, and what they leave."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import (
    QUESTIONS,
    make_choice,
    make_noul,
    make_provenance,
    make_ticket,
    make_wording,
)
from tests.fakes import FakeEngine
from tests.unit.decision.test_judge import BOUND
from worker.decision.policy import Recorded
from worker.decision.policy_file import Binding, Policy, mismatches
from worker.decision.question_set import QuestionSet
from worker.decision.scores import Scores, tempered
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.rulebook import binding_of


def make_policy(**fields: Any) -> Policy:
    tree = {"name": "desk", "bound_to": BOUND, "profiles": {"only": {"default": {"accept": 0.7}}}}
    return Policy.model_validate(tree | fields)


def test_a_temperature_divides_logits() -> None:
    """Over 1 flattens, under 1 sharpens, 1 changes no bit; certainty stays certain."""
    scores = Scores((0.8, 0.2), 0.5, top_is_label=False)
    flat = math.sqrt(0.8) / (math.sqrt(0.8) + math.sqrt(0.2))

    assert pytest.approx((flat, 1 - flat)) == tempered(scores, 2.0).probabilities
    assert pytest.approx((16 / 17, 1 / 17)) == tempered(scores, 0.5).probabilities
    assert scores is tempered(scores, 1.0)
    assert (1.0, 0.0) == tempered(Scores((1.0, 0.0), 1.0), 3.0).probabilities
    assert (0.5, False) == (tempered(scores, 2.0).label_mass, tempered(scores, 2.0).top_is_label)


@given(
    st.lists(st.floats(0.001, 1), min_size=1, max_size=8),
    st.floats(0.1, 10),
)
def test_a_temperature_keeps_the_best_option(weights: list[float], temperature: float) -> None:
    """It changes how sure an answer is, never which it is, and sums to 1."""
    scores = Scores(tuple(weight / sum(weights) for weight in weights), 1.0)
    after = tempered(scores, temperature)
    assert after.probabilities[scores.best] == max(after.probabilities)
    assert pytest.approx(1.0) == math.fsum(after.probabilities)


def test_the_most_specific_temperature_counts() -> None:
    """As with rules: a set's version, a set, a question, a type, else 1."""
    profile = make_policy(
        temperatures={
            "question_sets": {"desk@2": {"q": 2.0}, "desk": {"q": 3}},
            "questions": {"q": 4.0},
            "types": {"choice": 5.0},
        }
    ).profile()

    assert [2.0, 3.0, 4.0, 5.0, 1.0] == [
        profile.temperature("q", make_choice(), "desk@2"),
        profile.temperature("q", make_choice(), "desk@1"),
        profile.temperature("q", make_choice()),
        profile.temperature("r", make_choice()),
        profile.temperature("r", make_noul()),
    ]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf")])
def test_what_is_no_temperature_is_refused(temperature: float) -> None:
    """Logits cannot be divided by it."""
    with pytest.raises(ValueError, match="temperatures"):
        make_policy(temperatures={"types": {"choice": temperature}})


async def test_an_answer_is_tempered_before_it_is_judged() -> None:
    """Probabilities, confidence and verdict go together, and the verdict tells the temperature."""
    profile = make_policy(temperatures={"questions": {"desk": 50.0}}).profile()
    plain = Evaluator(FakeEngine(), make_wording(), make_provenance())
    raw = (await plain.evaluate(make_ticket(), Lane.BATCH)).as_dict()["answers"]
    calibrated = Evaluator(FakeEngine(), make_wording(), make_provenance(), policy=profile)
    outcome = await calibrated.evaluate(make_ticket(), Lane.BATCH)
    answers = outcome.as_dict()["answers"]

    assert list(QUESTIONS) == list(answers)
    wanted = tempered(Scores(tuple(raw["desk"]["probabilities"].values()), 1.0), 50.0)
    assert list(wanted.probabilities) == list(answers["desk"]["probabilities"].values())
    assert raw["desk"]["choice"] == answers["desk"]["choice"]
    assert ("review", 50.0) == (
        answers["desk"]["verdict"]["disposition"],
        answers["desk"]["verdict"]["temperature"],
    )
    assert raw["refund"]["noul"] == answers["refund"]["noul"]
    assert "temperature" not in answers["refund"]["verdict"]

    told = Recorded({"desk": outcome.answers["desk"].verdict.temperature})
    again = Evaluator(FakeEngine(), make_wording(), make_provenance(), policy=told)
    replayed = await again.evaluate(make_ticket(), Lane.BATCH)
    assert outcome.answers["desk"].probabilities == replayed.answers["desk"].probabilities


def test_the_hash_covers_temperatures() -> None:
    """And is what it was for a policy without."""
    hashes = {
        make_policy(**fields).profile().sha256
        for fields in (
            {"temperatures": {"types": {"choice": 2.0}}},
            {"temperatures": {"types": {"choice": 3.0}}},
            {},
        )
    }
    assert 3 == len(hashes)
    assert make_policy().profile().sha256 == make_policy(temperatures={}).profile().sha256


SETS = [
    QuestionSet.model_validate({"name": "desk", "version": version, "questions": QUESTIONS})
    for version in (1, 2)
]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"prompt": {**BOUND["prompt"], "orders": 2}}, "orders: made for 2, here the wording's"),
        ({"prompt": {**BOUND["prompt"], "orders": None}}, None),
        ({"runtime": {**BOUND["runtime"], "batching": "packed"}}, "batching: made for packed"),
        ({"runtime": {**BOUND["runtime"], "kv_type": "q8_0"}}, "KV type: made for q8_0, here f16"),
        ({"question_sets": {"desk@1": "12" * 32}}, f"question set desk@1: made for {'12' * 32}"),
        ({"question_sets": {"desk@1": SETS[0].sha256(), "other@1": "12" * 32}}, None),
        ({}, None),
    ],
)
def test_a_policy_fits_orders_batching_and_sets_too(
    change: dict[str, Any], told: str | None
) -> None:
    """Where it says them; a set that nobody can ask here is no mismatch."""
    here = binding_of(make_provenance(), SETS)
    faults = mismatches(Binding.model_validate({**BOUND, **change}), here)
    assert (told is None) == (not faults)
    assert told is None or faults[0].startswith(told)


def test_a_binding_that_is_made_here_fits_here() -> None:
    """Also after it was written to a file."""
    here = binding_of(make_provenance(), SETS[:1])
    assert [] == mismatches(Binding.model_validate(here.model_dump(mode="json")), here)
    elsewhere = binding_of(make_provenance(prompt={"orders": 2}), SETS)
    assert ["orders: made for the wording's own, here 2"] == mismatches(here, elsewhere)


def test_a_hash_of_a_set_is_one() -> None:
    """Else nothing would ever fit it."""
    with pytest.raises(ValueError, match="question_sets"):
        Binding.model_validate({**BOUND, "question_sets": {"desk@1": "12"}})
