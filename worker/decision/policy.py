"""The rule that turns scores into a verdict, and verdicts into a ticket's disposition."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from worker.decision import scores as formulas
from worker.decision.question import Question, Score
from worker.decision.scores import Scores

Disposition = Literal["accept", "review", "abstain"]

Temperature = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
"""What logits are divided by."""

# From the most daring to the most cautious.
_CAUTION: tuple[Disposition, ...] = ("accept", "review", "abstain")


class Verdict(BaseModel):
    """What to do about one answer.

    Attributes:
        reasons: every rule that applied, as stable words.
        threshold: the threshold that was compared with, when there is one.
        temperature: of the policy, which the answer's probabilities went through, when there is
            one.
    """

    model_config = ConfigDict(frozen=True)

    disposition: Disposition
    reasons: tuple[str, ...]
    threshold: float | None = None
    temperature: Temperature | None = None


class Rule(BaseModel):
    """When one answer is accepted.

    Attributes:
        accept: the least that is accepted; without it nothing is.
        abstain: what is less than this counts as no answer, not even for review.
        on: what is compared with it: the probability of the best option, or its confidence.
        margin: the least distance between the two best options.
        abstain_on: options that never count as an answer, however likely: a score's level by its
            number, a noul's as ``true`` or ``false``.
        min_label_mass: the least share of the model's whole distribution on the labels.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    accept: float | None = Field(default=None, ge=0, le=1)
    abstain: float | None = Field(default=None, ge=0, le=1)
    on: Literal["probability", "confidence"] = "probability"
    margin: float = Field(default=0.0, ge=0, le=1)
    abstain_on: list[str] = Field(default_factory=list)
    min_label_mass: float = Field(default=0.0, ge=0, le=1)


NO_POLICY = Verdict(disposition="review", reasons=("no_policy",))
"""Without a policy nothing is accepted: every answer is for a person to review."""

NO_RULE = Verdict(disposition="review", reasons=("no_rule",))
"""The policy says nothing about this question."""

POLICY_MISMATCH = Verdict(disposition="review", reasons=("policy_mismatch",))
"""The policy was made for another model, prompt or build."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Decides every question alike.

    Attributes:
        verdict: always.
    """

    verdict: Verdict

    def decide(
        self, key: str, question: Question, scores: Scores, question_set: str | None = None
    ) -> Verdict:
        """Return the verdict; see :class:`worker.decision.policy_file.Profile`."""
        del key, question, scores, question_set
        return self.verdict

    def temperature(self, key: str, question: Question, question_set: str | None = None) -> float:
        """Return 1; see :class:`worker.decision.policy_file.Profile`."""
        del key, question, question_set
        return 1.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """Puts probabilities through temperatures that were once used, and decides nothing.

    Attributes:
        temperatures: by question; 1 for others.
    """

    temperatures: Mapping[str, float]

    def decide(
        self, key: str, question: Question, scores: Scores, question_set: str | None = None
    ) -> Verdict:
        """Return review; see :class:`worker.decision.policy_file.Profile`."""
        del key, question, scores, question_set
        return NO_POLICY

    def temperature(self, key: str, question: Question, question_set: str | None = None) -> float:
        """Return the question's; see :class:`worker.decision.policy_file.Profile`."""
        del question, question_set
        return self.temperatures.get(key, 1.0)


REVIEW_ALL = Fixed(NO_POLICY)
"""What decides without a policy."""


def judge(rule: Rule, question: Question, scores: Scores) -> Verdict:
    """Apply a rule to an answer.

    Raising any threshold of *rule* never makes a disposition more daring, and an option to abstain
    on stays one whatever the thresholds are.
    """
    abstains = tuple(_abstentions(rule, question, scores))
    short = tuple(_shortfalls(rule, question, scores))
    reasons = (*abstains, *short)
    disposition: Disposition = "abstain" if abstains else "review" if short else "accept"
    return Verdict(
        disposition=disposition, reasons=reasons or ("threshold_met",), threshold=rule.accept
    )


def _abstentions(rule: Rule, question: Question, scores: Scores) -> Iterable[str]:
    if question.options()[scores.best].key in rule.abstain_on:
        yield "abstain_option"
    if rule.abstain is not None and _strength(rule, question, scores) < rule.abstain:
        yield f"{rule.on}_below_abstain"


def _shortfalls(rule: Rule, question: Question, scores: Scores) -> Iterable[str]:
    if rule.accept is None:
        yield "no_threshold"
    elif _strength(rule, question, scores) < rule.accept:
        yield f"{rule.on}_below_threshold"
    if _margin(scores) < rule.margin:
        yield "margin_too_small"
    if scores.label_mass < rule.min_label_mass:
        yield "label_mass_too_small"


def _strength(rule: Rule, question: Question, scores: Scores) -> float:
    if rule.on == "probability":
        return max(scores.probabilities)
    if isinstance(question, Score):
        return formulas.score_confidence(scores.probabilities)
    return formulas.choice_confidence(scores.probabilities)


def _margin(scores: Scores) -> float:
    """Return the distance between the two best options; 1 for a single one."""
    if len(scores.probabilities) == 1:
        return 1.0
    second, first = sorted(scores.probabilities)[-2:]
    return first - second


def most_cautious(verdicts: Iterable[Verdict]) -> Disposition:
    """Return the most cautious disposition among *verdicts*."""
    return max((verdict.disposition for verdict in verdicts), key=_CAUTION.index)
