"""Evaluate a ticket in a span, named as OpenTelemetry's GenAI conventions do.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ (the model runs in this
process, so the span is internal). What has no name there is named ``decision.``.
"""

from worker.decision.evidence import Witness
from worker.decision.outcome import Outcome
from worker.decision.ticket import Ticket
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.tracing import Attributes, Kind, Tracer

_OPERATION = "evaluate"


async def evaluate_traced(
    tracer: Tracer,
    evaluator: Evaluator,
    ticket: Ticket,
    lane: Lane,
    deadline: float | None = None,
    *,
    alone: bool = False,
    witness: Witness | None = None,
) -> Outcome:
    """Answer all questions of a ticket in a span; see :meth:`worker.evaluator.Evaluator.evaluate`.

    The span tells numbers and names of ours; nothing that the ticket says.
    """
    # What the ticket asks for is the sender's text; this is what answers.
    model = evaluator.provenance.model
    attributes = {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.provider.name": "llama.cpp",
        "gen_ai.request.model": model.name,
        "decision.model.sha256": model.sha256,
        "decision.lane": lane.value,
        "decision.alone": alone,
    }
    with tracer.span(f"{_OPERATION} {model.name}", Kind.INTERNAL, attributes) as span:
        outcome = await evaluator.evaluate(ticket, lane, deadline, alone=alone, witness=witness)
        span.set(_answered(outcome))
    return outcome


def _answered(outcome: Outcome) -> Attributes:
    provenance = outcome.provenance
    found: dict[str, str | int | float | bool] = {
        "gen_ai.response.id": outcome.outcome_id,
        "gen_ai.response.model": provenance.model.name,
        "decision.questions": len(outcome.answers or {}),
    }
    if outcome.disposition is not None:
        found["decision.disposition"] = outcome.disposition
    if provenance.question_set is not None:
        named = provenance.question_set
        found["decision.question_set"] = f"{named.name}@{named.version}"
    if provenance.windows is not None:
        found["decision.windows"] = provenance.windows.count
    if outcome.usage is not None:
        found["gen_ai.usage.input_tokens"] = outcome.usage.input_tokens
        found["gen_ai.usage.cache_read.input_tokens"] = outcome.usage.reused_tokens
        found["gen_ai.usage.output_tokens"] = 0
        found["decision.evaluated_tokens"] = outcome.usage.evaluated_tokens
    if outcome.timings is not None:
        found["decision.waiting_seconds"] = outcome.timings.waiting_seconds
        found["decision.evaluation_seconds"] = outcome.timings.evaluation_seconds
    return found
