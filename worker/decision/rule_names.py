"""Find the names in a policy that mean nothing among the configured question sets."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from worker.decision.policy import Rule
from worker.decision.policy_file import Policy
from worker.decision.question import Question
from worker.decision.question_set import QuestionSet


def unknown_names(policy: Policy, sets: Iterable[QuestionSet]) -> list[str]:
    """Return each place of a policy that names a set, a question or an option that is not there.

    Questions outside of sets are passed over: tickets may bring them.

    Args:
        policy: all profiles of it.
        sets: that may be asked by name.
    """
    versions: dict[str, list[QuestionSet]] = {}
    for one in sets:
        for name in (one.key, one.name):
            versions.setdefault(name, []).append(one)
    found = list(_unknown("temperatures.", policy.temperatures.question_sets, versions))
    for profile, rules in policy.profiles.items():
        found += _unknown(f"profiles.{profile}.", rules.question_sets, versions)
    return found


def _unknown(
    above: str,
    named: Mapping[str, Mapping[str, Any]],
    versions: Mapping[str, list[QuestionSet]],
) -> Iterator[str]:
    for name, by_question in named.items():
        place = f"{above}question_sets.{name}"
        if name not in versions:
            yield f"{place}: there is no such set"
            continue
        for key, told in by_question.items():
            questions = [one.questions[key] for one in versions[name] if key in one.questions]
            if not questions:
                yield f"{place}.{key}: the set has no such question"
            elif isinstance(told, Rule):
                yield from _unknown_options(f"{place}.{key}", told, questions)


def _unknown_options(place: str, rule: Rule, questions: list[Question]) -> Iterator[str]:
    options = {option.key for question in questions for option in question.options()}
    for number, option in enumerate(rule.abstain_on):
        if option not in options:
            yield f"{place}.abstain_on.{number}: the question has no such option"
