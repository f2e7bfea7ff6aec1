"""Answers in System One's shape."""

import pytest

from tests.factories import make_choice, make_noul, make_score, make_scored
from worker.decision.answer import BEYOND_SYSTEM_ONE, ChoiceAnswer, ScoreAnswer
from worker.decision.policy import NO_POLICY, Verdict

BEYOND = {
    "verdict": {
        "disposition": "review",
        "reasons": ["no_policy"],
        "threshold": None,
        "temperature": None,
    },
    "label_mass": 0.9,
    "top_is_label": True,
    "window": None,
}


def test_a_choice() -> None:
    """The most likely option, every option's probability by name in order, and the peak."""
    answer = make_scored(make_choice(), 0.1, 0.9)

    assert {
        "type": "choice",
        "choice": "tech",
        "probabilities": {"money": 0.1, "tech": 0.9},
        "confidence": pytest.approx(0.8),
        **BEYOND,
    } == answer.model_dump(mode="json")
    assert isinstance(answer, ChoiceAnswer)
    assert ["money", "tech"] == list(answer.probabilities)


def test_a_score() -> None:
    """The expected level, with texts and probabilities by number as strings."""
    answer = make_scored(make_score(), 0.45, 0.5, 0.05)

    assert {
        "type": "score",
        "score": pytest.approx(0.6),
        "legend": {"0": "calm", "1": "annoyed", "2": "furious"},
        "probabilities": {"0": 0.45, "1": 0.5, "2": 0.05},
        "confidence": pytest.approx(0.25),
        **BEYOND,
    } == answer.model_dump(mode="json")


def test_a_score_is_not_measured_like_a_choice() -> None:
    """Each type has its own confidence: distance to the mode here, the peak there."""
    four = (0.0023, 0.116, 0.6753, 0.2064)
    score = make_scored(make_score(criteria=["a", "b", "c", "d"]), *four)
    choice = make_scored(make_choice(criteria=dict.fromkeys("abcd")), *four)

    assert isinstance(score, ScoreAnswer)
    assert isinstance(choice, ChoiceAnswer)
    assert (0.673, 0.567) == (round(score.confidence, 3), round(choice.confidence, 3))


@pytest.mark.parametrize("criteria", [None, {"false": "no", "true": "yes"}])
def test_a_noul(criteria: dict[str, str] | None) -> None:
    """The probability of true, and no confidence; true is the first option however it is asked."""
    answer = make_scored(make_noul(criteria=criteria), 0.97, 0.03)

    assert {"type": "noul", "noul": 0.97, **BEYOND} == answer.model_dump(mode="json")


def test_a_tie_goes_to_the_first() -> None:
    """Among equals the first in request order is chosen."""
    answer = make_scored(make_choice(criteria={"z": None, "a": None}), 0.5, 0.5)

    assert isinstance(answer, ChoiceAnswer)
    assert "z" == answer.choice


def test_a_legend_holds_the_levels_unchanged() -> None:
    """Structured levels come back as they were sent, nulls and order included."""
    levels = [{"z": None, "a": [None, {"b": None}]}, ["x", None], "text", ""]
    answer = make_scored(make_score(criteria=levels), 0.25, 0.25, 0.25, 0.25)

    assert isinstance(answer, ScoreAnswer)
    assert levels == list(answer.model_dump(mode="json")["legend"].values())
    assert ["z", "a"] == list(answer.model_dump(mode="json")["legend"]["0"])


def test_a_single_option_is_answered() -> None:
    """A choice of one and a scale of one level have an answer, with full confidence."""
    choice = make_scored(make_choice(criteria={"only": None}), 1.0)
    score = make_scored(make_score(criteria=["only"]), 1.0)

    assert isinstance(choice, ChoiceAnswer)
    assert isinstance(score, ScoreAnswer)
    assert ("only", 1.0) == (choice.choice, choice.confidence)
    assert (0.0, 1.0) == (score.score, score.confidence)


def test_what_is_beyond_system_one_can_be_left_out() -> None:
    """Without our own fields an answer is System One's to the letter."""
    answers = [
        make_scored(make_choice(), 0.5, 0.5),
        make_scored(make_score(), 0.5, 0.5, 0.0),
        make_scored(make_noul(), 0.5, 0.5),
    ]
    fields = [set(answer.model_dump(exclude=set(BEYOND_SYSTEM_ONE))) for answer in answers]

    assert [
        {"type", "choice", "probabilities", "confidence"},
        {"type", "score", "legend", "probabilities", "confidence"},
        {"type", "noul"},
    ] == fields


def test_an_answer_carries_its_verdict_and_label_mass() -> None:
    """The verdict is the one that was made, the label mass the one that was read."""
    verdict = Verdict(disposition="accept", reasons=("above",), threshold=0.8)
    answers = [
        make_scored(question, *probabilities, label_mass=0.125, verdict=verdict)
        for question, probabilities in [
            (make_choice(), (0.5, 0.5)),
            (make_score(), (0.5, 0.5, 0.0)),
            (make_noul(), (0.5, 0.5)),
        ]
    ]

    assert [(verdict, 0.125)] * 3 == [(answer.verdict, answer.label_mass) for answer in answers]
    assert "review" == NO_POLICY.disposition


def test_scores_for_other_options_are_a_bug() -> None:
    """As many probabilities as options, or nothing is answered."""
    with pytest.raises(ValueError, match="zip"):
        make_scored(make_choice(), 1.0)
