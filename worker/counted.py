"""Count what was answered, whoever asked."""

from worker import metrics
from worker.decision.answer import Answer, NoulAnswer
from worker.decision.outcome import Outcome

NEAR_TIE = 0.05
"""Two options that are closer than that could as well have come the other way round."""


def count_answers(outcome: Outcome) -> None:
    """Count the answers of one outcome in the metrics."""
    for answer in (outcome.answers or {}).values():
        metrics.DECISIONS.labels(answer.type, answer.verdict.disposition).inc()
        metrics.LABEL_MASS.labels(answer.type).observe(answer.label_mass)
        if margin(answer) < NEAR_TIE:
            metrics.NEAR_TIES.labels(answer.type).inc()


def margin(answer: Answer) -> float:
    """Return by how much the likeliest option leads; 1 where there is no other."""
    if isinstance(answer, NoulAnswer):
        return abs(2 * answer.noul - 1)
    first, second = sorted((*answer.probabilities.values(), 0.0), reverse=True)[:2]
    return first - second
