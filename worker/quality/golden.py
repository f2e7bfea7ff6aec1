"""Ask a question set's own examples, and see whether the answers are those its author expects."""

from collections.abc import Iterator
from dataclasses import dataclass

from worker.decision.answer import Answer, NoulAnswer
from worker.decision.question_set import QuestionSet
from worker.decision.ticket import validate_ticket
from worker.errors import Rejected, UsageError
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.quality.expected import NoOption, option_index
from worker.quality.lint import Finding


@dataclass(frozen=True, slots=True)
class Examples:
    """What became of a set's examples.

    Attributes:
        answers: how many were expected.
        missed: how many of them did not come.
        findings: on those, and on examples that cannot be asked.
    """

    answers: int
    missed: int
    findings: tuple[Finding, ...]


def expected_options(one: QuestionSet) -> list[dict[str, int]]:
    """Return, for each example, the index of the option that each question should get.

    Raises:
        UsageError: an example expects what is none of the options.
    """
    found = []
    for place, example in enumerate(one.examples):
        options: dict[str, int] = {}
        for key, value in example.answers.items():
            try:
                index = option_index(one.questions[key], value)
            except NoOption as error:
                where = f"{one.key}: examples.{place}.answers.{key}"
                raise UsageError(f"{where}: {error}") from None
            if index is not None:
                options[key] = index
        found.append(options)
    return found


async def ask_examples(evaluator: Evaluator, one: QuestionSet) -> Examples:
    """Ask all examples of a set that the evaluator knows.

    Raises:
        UsageError: an example expects what is none of the options.
    """
    expected = expected_options(one)
    missed = 0
    findings: list[Finding] = []
    for place, (example, options) in enumerate(zip(one.examples, expected, strict=True)):
        where = f"{one.key}: examples.{place}"
        ticket = validate_ticket({"state": example.state, "question_set": one.key})
        try:
            outcome = await evaluator.evaluate(ticket, Lane.BATCH)
        except Rejected as fault:
            findings.append(Finding("example_rejected", where, str(fault), is_error=True))
            missed += len(options)
            continue
        misses = list(_misses(outcome.answers or {}, options, one, where))
        findings += misses
        missed += len(misses)
    return Examples(sum(map(len, expected)), missed, tuple(findings))


def _misses(
    answers: dict[str, Answer], options: dict[str, int], one: QuestionSet, where: str
) -> Iterator[Finding]:
    for key, wanted in options.items():
        keys = [option.key for option in one.questions[key].options()]
        probabilities = _probabilities(answers[key])
        best = max(keys, key=lambda name: probabilities[name])
        if best != keys[wanted]:
            message = (
                f"answered {best} ({probabilities[best]:.2f}), expected {keys[wanted]}"
                f" ({probabilities[keys[wanted]]:.2f})"
            )
            yield Finding("example_missed", f"{where}.answers.{key}", message, is_error=True)


def _probabilities(answer: Answer) -> dict[str, float]:
    if isinstance(answer, NoulAnswer):
        return {"true": answer.noul, "false": 1.0 - answer.noul}
    return answer.probabilities
