"""Check that what an outcome says follows from its own probabilities."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worker.decision.answer import Answer, NoulAnswer, make_answer
from worker.decision.decided import verdict_of
from worker.decision.outcome import Outcome
from worker.decision.policy import most_cautious
from worker.decision.policy_file import Decider
from worker.decision.question import Question
from worker.decision.scores import Scores

_READ = frozenset({"type", "probabilities", "noul", "label_mass", "top_is_label", "window"})
"""Parts of an answer from which the others follow."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One part of an outcome that does not follow from the rest of it.

    Attributes:
        part: its place in the outcome, such as ``answers.team.choice``.
        told: as the outcome says.
        follows: as it should be.
    """

    part: str
    told: str
    follows: str


def contradictions(
    outcome: Outcome,
    questions: Mapping[str, Question],
    policy: Decider | None,
    question_set: str | None,
) -> tuple[Contradiction, ...]:
    """Return every part of an outcome that its probabilities and the policy do not give.

    Args:
        outcome: of status ``decided``.
        questions: that were asked; answers to others, or with other options, are passed over.
        policy: that made the verdicts; None: it is not at hand, and they are taken as they are.
        question_set: ``name@version`` of the set that was asked.
    """
    found: list[Contradiction] = []
    for key, answer in (outcome.answers or {}).items():
        scores = _scores(answer)
        question = questions.get(key)
        if question is not None and _fits(question, answer):
            found += _of_answer(key, question, answer, scores, policy, question_set)
    verdicts = [answer.verdict for answer in (outcome.answers or {}).values()]
    if verdicts and most_cautious(verdicts) != outcome.disposition:
        told = str(outcome.disposition or "none")
        found.append(Contradiction("disposition", told, most_cautious(verdicts)))
    return tuple(found)


def _of_answer(
    key: str,
    question: Question,
    answer: Answer,
    scores: Scores,
    policy: Decider | None,
    question_set: str | None,
) -> Iterator[Contradiction]:
    verdict = answer.verdict
    if policy is not None:
        verdict = verdict_of(key, question, scores, policy, question_set)
    follows = make_answer(question, scores, verdict).model_dump(mode="json")
    for name, told in answer.model_dump(mode="json").items():
        if name == "verdict":
            yield from _parts(f"answers.{key}.verdict", told, follows[name])
        elif name not in _READ and told != follows[name]:
            yield Contradiction(f"answers.{key}.{name}", str(told), str(follows[name]))


def _parts(
    part: str, told: Mapping[str, Any], follows: Mapping[str, Any]
) -> Iterator[Contradiction]:
    for name, value in told.items():
        if value != follows[name]:
            yield Contradiction(f"{part}.{name}", _shown(value), _shown(follows[name]))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "none" if value is None else str(value)


def _fits(question: Question, answer: Answer) -> bool:
    """Return whether an answer has the question's type and options."""
    if question.type != answer.type:
        return False
    if isinstance(answer, NoulAnswer):
        return True
    return [option.key for option in question.options()] == list(answer.probabilities)


def _scores(answer: Answer) -> Scores:
    """Return the scores that an answer was worded from."""
    if isinstance(answer, NoulAnswer):
        probabilities: tuple[float, ...] = (answer.noul, 1.0 - answer.noul)
    else:
        probabilities = tuple(answer.probabilities.values())
    return Scores(
        probabilities=probabilities,
        label_mass=answer.label_mass,
        top_is_label=answer.top_is_label,
        window=answer.window,
    )
