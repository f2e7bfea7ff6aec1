"""Answers in System One's shape."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from worker.decision import scores as formulas
from worker.decision.policy import Verdict
from worker.decision.question import Choice, Noul, Question, Text
from worker.decision.scores import Scores

BEYOND_SYSTEM_ONE = frozenset({"verdict", "label_mass", "top_is_label", "window"})
"""Fields of an outcome's answer that a System One answer does not have."""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)

    verdict: Verdict
    label_mass: float
    top_is_label: bool
    window: int | None = None


class ChoiceAnswer(_Answer):
    """The most likely option, with every option's probability."""

    type: Literal["choice"] = "choice"
    choice: str
    probabilities: dict[str, float]
    confidence: float


class ScoreAnswer(_Answer):
    """The expected level, with the levels' texts and probabilities by number."""

    type: Literal["score"] = "score"
    score: float
    legend: dict[str, Text]
    probabilities: dict[str, float]
    confidence: float


class NoulAnswer(_Answer):
    """The probability of true."""

    type: Literal["noul"] = "noul"
    noul: float


Answer = ChoiceAnswer | ScoreAnswer | NoulAnswer


def make_answer(question: Question, scores: Scores, verdict: Verdict) -> Answer:
    """Word *scores* as the answer to *question*."""
    keys = [option.key for option in question.options()]
    by_key = dict(zip(keys, scores.probabilities, strict=True))
    signs = _Answer(
        verdict=verdict,
        label_mass=scores.label_mass,
        top_is_label=scores.top_is_label,
        window=scores.window,
    )
    if isinstance(question, Noul):
        return NoulAnswer(noul=by_key["true"], **dict(signs))
    if isinstance(question, Choice):
        return ChoiceAnswer(
            choice=keys[scores.best],
            probabilities=by_key,
            confidence=formulas.choice_confidence(scores.probabilities),
            **dict(signs),
        )
    return ScoreAnswer(
        score=formulas.expected_level(scores.probabilities),
        legend=dict(zip(keys, question.criteria, strict=True)),
        probabilities=by_key,
        confidence=formulas.score_confidence(scores.probabilities),
        **dict(signs),
    )
