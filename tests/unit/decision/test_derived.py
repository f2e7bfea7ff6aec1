"""What an outcome says follows from its probabilities, or is named."""

import math
from typing import Any

import pytest

from tests.factories import make_choice, make_noul, make_outcome, make_score, make_scored
from worker.decision.answer import Answer
from worker.decision.derived import contradictions
from worker.decision.outcome import Outcome
from worker.decision.policy import REVIEW_ALL, Rule, Verdict, judge
from worker.decision.question import Question
from worker.decision.scores import Scores

QUESTIONS: dict[str, Question] = {
    "desk": make_choice(), "heat": make_score(), "refund": make_noul(),
}  # fmt: skip
LEVELS = len(make_score().options())
ACCEPTED = Verdict(disposition="accept", reasons=("threshold_met",), threshold=0.6)


class Accepting:
    """Accepts what has a probability of 0.6, at a temperature of 2."""

    def decide(
        self, key: str, question: Question, scores: Scores, question_set: str | None = None
    ) -> Verdict:
        return judge(Rule(accept=0.6), question, scores)

    def temperature(self, key: str, question: Question, question_set: str | None = None) -> float:
        return 2.0


def answers() -> dict[str, Answer]:
    return {
        "desk": make_scored(make_choice(), 0.9, 0.1),
        "heat": make_scored(make_score(), 0.7, *(0.3 / (LEVELS - 1),) * (LEVELS - 1)),
        "refund": make_scored(make_noul(), 0.2, 0.8),
    }


def altered(key: str, **fields: Any) -> Outcome:
    found = answers()
    return make_outcome(answers=found | {key: found[key].model_copy(update=fields)})


def found(outcome: Outcome, policy: Any = REVIEW_ALL) -> list[tuple[str, str, str]]:
    return [
        (one.part, one.told, one.follows)
        for one in contradictions(outcome, QUESTIONS, policy, "triage@1")
    ]


def test_an_outcome_as_it_was_written_contradicts_nothing() -> None:
    """Of every type of question, with and without the policy at hand."""
    assert [] == found(make_outcome(answers=answers()))
    assert [] == found(make_outcome(answers=answers()), None)


@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        ("desk", "choice", "other"),
        ("desk", "confidence", 0.99),
        ("heat", "score", 1.5),
        ("heat", "legend", {"0": "calm"}),
        ("heat", "confidence", math.nextafter(answers()["heat"].confidence, 1)),
    ],
)
def test_what_was_altered_is_named(key: str, field: str, value: Any) -> None:
    """Though its probabilities are what they were."""
    [(part, told, _)] = found(altered(key, **{field: value}), None)

    assert (f"answers.{key}.{field}", str(value)) == (part, told)


def test_a_verdict_is_what_the_policy_says() -> None:
    """Without the policy it is taken as it is; the ticket's disposition still follows from it."""
    daring = altered("desk", verdict=ACCEPTED)
    reviewed = make_outcome(answers={"desk": make_scored(make_choice(), 0.9, 0.1)})
    daring_ticket = reviewed.model_copy(update={"disposition": "accept"})

    assert [
        ("answers.desk.verdict.disposition", "accept", "review"),
        ("answers.desk.verdict.reasons", "threshold_met", "no_policy"),
        ("answers.desk.verdict.threshold", "0.6", "none"),
    ] == found(daring)
    assert [] == found(daring, None)
    assert [("disposition", "accept", "review")] == found(daring_ticket, None)
    assert ("answers.desk.verdict.temperature", "none", "2.0") in found(reviewed, Accepting())


def test_a_verdict_of_the_policy_at_hand_stands() -> None:
    """With its threshold and temperature."""
    verdict = ACCEPTED.model_copy(update={"temperature": 2.0})
    outcome = make_outcome(
        answers={"desk": make_scored(make_choice(), 0.9, 0.1, verdict=verdict)},
        disposition="accept",
    )

    assert [] == found(outcome, Accepting())


def test_what_was_not_asked_so_is_passed_over() -> None:
    """Other options or another type: there is no question to derive anything from."""
    other = make_choice(criteria={"money": None, "other": None})
    outcome = make_outcome(
        answers={
            "desk": make_scored(other, 0.9, 0.1),
            "heat": make_scored(make_noul(), 0.9, 0.1),
            "more": make_scored(make_noul(), 0.9, 0.1),
        }
    )

    assert [] == found(outcome)
