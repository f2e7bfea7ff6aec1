"""What is likely wrong with a question set, though it can be asked. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from worker.decision.prompt import shown
from worker.decision.question import Choice, Question, Score
from worker.decision.question_set import QuestionSet

_WAYS_OUT = {
    "none", "other", "others", "neither", "unknown", "unclear", "unsure", "else", "misc",
    "miscellaneous", "irrelevant", "keine", "keiner", "keines", "andere", "sonstige",
    "sonstiges", "unklar", "aucun", "aucune", "autre", "autres", "ninguno", "ninguna",
    "otro", "otra", "otros", "nessuno", "altro", "その他", "なし", "不明", "无", "其他",
}  # fmt: skip
_FEW_OPTIONS = 2
"""A choice between so few is a question of yes or no, which needs no way out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that looks wrong.

    Attributes:
        rule: its name, in snake case.
        where: the set, and the place in it.
        message: in words, without text of the set.
        is_error: whether answers are worthless with it; else it deserves a look.
    """

    rule: str
    where: str
    message: str
    is_error: bool = False


def lint(one: QuestionSet, *, labels: int | None = None) -> tuple[Finding, ...]:
    """Return what looks wrong with a set.

    Args:
        one: the set.
        labels: how many options the model can tell apart; None: not known.
    """
    found: list[Finding] = []
    for key, question in one.questions.items():
        where = f"{one.key}: questions.{key}"
        found += _lint_question(question, where, labels)
    found += _twins(one)
    return tuple(found)


def _lint_question(question: Question, where: str, labels: int | None) -> Iterator[Finding]:
    if not question.instructions:
        yield Finding("no_instructions", where, "nothing says what is asked")
    if isinstance(question, Choice):
        yield from _prefixes(list(question.criteria), f"{where}.criteria")
        yield from _no_way_out(question, f"{where}.criteria")
    yield from _same_descriptions(question, f"{where}.criteria")
    count = len(question.options())
    if labels is not None and count > labels:
        message = f"{count} options; the model can tell {labels} apart"
        yield Finding("too_many_options", f"{where}.criteria", message, is_error=True)


def _prefixes(keys: Sequence[str], where: str) -> Iterator[Finding]:
    folded = [key.casefold() for key in keys]
    for (first, one), (second, other) in combinations(enumerate(folded), 2):
        if one.startswith(other) or other.startswith(one):
            message = f"options {first + 1} and {second + 1} begin alike; one contains the other"
            yield Finding("option_is_prefix", where, message)


def _no_way_out(question: Choice, where: str) -> Iterator[Finding]:
    words = {
        word for key in question.criteria for word in key.casefold().replace("-", "_").split("_")
    }
    words |= {word for key in question.criteria for word in key.casefold().split()}
    if len(question.criteria) > _FEW_OPTIONS and not words & _WAYS_OUT:
        message = "no option such as none or other: a text that fits nowhere is put somewhere"
        yield Finding("no_way_out", where, message)


def _same_descriptions(question: Question, where: str) -> Iterator[Finding]:
    unit = "levels" if isinstance(question, Score) else "options"
    first_with: dict[str, int] = {}
    for place, option in enumerate(question.options(), start=1):
        if not option.description:
            continue
        text = shown(option.description).casefold().strip()
        first = first_with.setdefault(text, place)
        if first != place:
            message = f"{unit} {first} and {place} have the same description"
            yield Finding("duplicated_description", where, message, is_error=True)


def _twins(one: QuestionSet) -> Iterator[Finding]:
    first_with: dict[str, str] = {}
    for key, question in one.questions.items():
        first = first_with.setdefault(question.model_dump_json(), key)
        if first != key:
            where = f"{one.key}: questions.{key}"
            yield Finding("duplicated_question", where, f"is the same as {first}", is_error=True)
