"""Drift: today's answers against those that the policy was calibrated on."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from tests.factories import make_choice, make_outcome, make_provenance, make_scored
from tests.unit.quality.bench import draw_results, make_header
from worker.decision.drift import Binned, Reference, judgement, stability_index
from worker.decision.outcome import Outcome, QuestionSetProvenance
from worker.drift import LEAST_ANSWERS, WINDOW_ANSWERS, Drift
from worker.metrics import REGISTRY
from worker.quality.reference import references
from worker.quality.run_file import AskedQuestion

SET = QuestionSetProvenance(name="desk", version=1, sha256="1" * 64)
REFERENCE = Reference(
    cases=100,
    answers={"money": 0.5, "tech": 0.5},
    confidence=Binned(edges=[0.5], shares=[0.5, 0.5]),
    label_mass=Binned(edges=[0.5], shares=[0.1, 0.9]),
)


def outcome(probability: float, label_mass: float = 0.9, **fields: object) -> Outcome:
    answer = make_scored(make_choice(), probability, 1 - probability, label_mass=label_mass)
    return make_outcome(
        answers={"desk": answer}, provenance=make_provenance(question_set=SET, **fields)
    )


def watched(*outcomes: Outcome) -> Drift:
    found = Drift({"desk@1": {"desk": REFERENCE}})
    for one in outcomes:
        found.note(one)
    return found


def gauge(what: str) -> float:
    labels = {"question_set": "desk@1", "question": "desk", "what": what}
    found = REGISTRY.get_sample_value("decision_drift_psi", labels)
    assert found is not None
    return found


def test_the_index_is_that_of_the_formula() -> None:
    """Zero for the same shares; an empty bin counts as a ten-thousandth."""
    assert 0 == stability_index([0.25, 0.75], [1, 3])
    expected = (0.5 - 0.25) * math.log(0.5 / 0.25) + (0.5 - 0.75) * math.log(0.5 / 0.75)
    assert pytest.approx(expected, abs=1e-12) == stability_index([0.25, 0.75], [2, 2])
    assert math.isfinite(stability_index([0.0, 1.0], [5, 0]))
    assert ["stable", "watch", "watch", "shifted"] == [
        judgement(index) for index in (0.09, 0.1, 0.24, 0.25)
    ]


def test_nothing_is_said_of_few_answers() -> None:
    """Chance alone would look like a shift."""
    few = watched(*[outcome(0.9)] * (LEAST_ANSWERS - 1))
    assert {} == few.told()
    assert math.isnan(gauge("answers"))
    few.note(outcome(0.9))
    assert "shifted" == few.told()["desk@1.desk"]["judgement"]
    assert gauge("answers") > 1


def test_answers_as_they_were_are_stable() -> None:
    """Options, confidence and label mass alike."""
    half = [outcome(0.9), outcome(0.4)] * (LEAST_ANSWERS // 2)
    shy = [outcome(0.9, 0.1) if number % 10 == 0 else one for number, one in enumerate(half)]
    found = watched(*shy).told()["desk@1.desk"]

    assert "stable" == found["judgement"]
    assert {"answers": 0.0, "confidence": 0.0, "label_mass": 0.0} == found["psi"]


def test_each_change_is_seen_where_it_is() -> None:
    """Surer answers move the confidence only, stranger texts the label mass."""
    surer = watched(*[outcome(0.9), outcome(0.1)] * LEAST_ANSWERS).told()["desk@1.desk"]["psi"]
    odd = watched(*[outcome(0.9, 0.1), outcome(0.4, 0.1)] * LEAST_ANSWERS)

    assert surer["answers"] < 0.001 < 0.25 < surer["confidence"]
    assert 0.25 < odd.told()["desk@1.desk"]["psi"]["label_mass"]


def test_only_the_last_answers_count() -> None:
    """What was shifted yesterday may be as it was today."""
    found = watched(*[outcome(0.9)] * WINDOW_ANSWERS)
    for _ in range(WINDOW_ANSWERS // 2):
        found.note(outcome(0.9))
        found.note(outcome(0.4))

    assert 0 == found.told()["desk@1.desk"]["psi"]["answers"]


def test_other_sets_are_not_compared() -> None:
    """Nor what a ticket asks by itself."""
    other = make_provenance(question_set=SET.model_copy(update={"version": 2}))
    own = make_outcome(provenance=make_provenance())
    found = watched(*[make_outcome(provenance=other), own] * LEAST_ANSWERS)

    assert {} == found.told()


def test_the_reference_is_that_of_the_run() -> None:
    """New answers of the same kind are stable against it, at the policy's temperature."""
    rng = np.random.default_rng(5)
    header = make_header(questions={"q": AskedQuestion(type="choice", options=("a", "b", "c"))})
    made = references(header, draw_results(rng, 5_000, 2.0), {"q": 2.0})["q"]
    criteria = dict.fromkeys(("a", "b", "c"))
    drift = Drift({"desk@1": {"q": made}})
    for result in draw_results(rng, WINDOW_ANSWERS):
        answer = make_scored(make_choice(criteria=criteria), *result.answers["q"].probabilities)
        drift.note(
            make_outcome(answers={"q": answer}, provenance=make_provenance(question_set=SET))
        )

    assert 5_000 == made.cases
    assert made.label_mass is None
    assert 9 == len(made.confidence.edges)
    assert {"judgement": "stable", "psi": {"answers": 0, "confidence": 0}} == {
        key: value if key == "judgement" else {what: round(one) for what, one in value.items()}
        for key, value in drift.told()["desk@1.q"].items()
    }


@pytest.mark.parametrize(
    ("edges", "shares"),
    [([0.5], [1.0]), ([0.5, 0.5], [0.2, 0.3, 0.5]), ([0.5], [0.2, 0.2]), ([math.nan], [0.5, 0.5])],
)
def test_bins_that_are_none_are_refused(edges: list[float], shares: list[float]) -> None:
    """Before a worker starts with them."""
    with pytest.raises(ValidationError):
        Binned(edges=edges, shares=shares)
