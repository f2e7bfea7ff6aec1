"""Plain functions that make what tests need, with defaults for what a test does not care about."""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from worker.decision.answer import Answer, make_answer
from worker.decision.direct import DirectWording
from worker.decision.labels import Label, LabelPool
from worker.decision.outcome import (
    SCHEMA,
    ModelProvenance,
    Outcome,
    PromptProvenance,
    Provenance,
    RuntimeProvenance,
    Timings,
    Usage,
)
from worker.decision.policy import NO_POLICY, Verdict
from worker.decision.prompt import Frame, PromptTemplate
from worker.decision.question import Choice, Noul, Question, Score
from worker.decision.scores import Scores
from worker.decision.ticket import Ticket
from worker.ports import Delivery

QUESTIONS: dict[str, dict[str, Any]] = {
    "desk": {
        "type": "choice",
        "instructions": "Who handles this?",
        "criteria": {"money": "invoices", "tech": None},
    },
    "heat": {
        "type": "score",
        "instructions": "How upset?",
        "criteria": ["calm", "annoyed", "furious"],
    },
    "refund": {"type": "noul", "instructions": "Does the writer ask for money back?"},
}
"""One question of each type, as a client would send them."""


def make_choice(**fields: Any) -> Choice:
    return Choice.model_validate(QUESTIONS["desk"] | fields)


def make_score(**fields: Any) -> Score:
    return Score.model_validate(QUESTIONS["heat"] | fields)


def make_noul(**fields: Any) -> Noul:
    return Noul.model_validate(QUESTIONS["refund"] | fields)


def make_tree(**fields: Any) -> dict[str, Any]:
    """Return a ticket as parsed JSON; a field set to ... is left out."""
    tree: dict[str, Any] = {
        "ticket_id": "t-1",
        "state": "Second invoice for the same seat, please undo it.",
        "questions": QUESTIONS,
    }
    return {name: value for name, value in (tree | fields).items() if value is not ...}


def make_body(**fields: Any) -> str:
    """Return a ticket as the text of a message."""
    return json.dumps(make_tree(**fields))


def make_ticket(**fields: Any) -> Ticket:
    return Ticket.model_validate(make_tree(**fields))


def make_delivery(**fields: Any) -> Delivery:
    message_id = fields.get("message_id", "m-1")
    values = {
        "message_id": message_id,
        "receipt_handle": f"{message_id}#1",
        "body": make_body(),
        "receive_count": 1,
        "sent_at": 0.0,
        "asked_at": 0.0,
    }
    return Delivery(**values | fields)


def make_labels(count: int) -> tuple[Label, ...]:
    return tuple(Label(chr(ord("A") + index), 100 + index) for index in range(count))


def make_prompt(frame: Frame | None = None) -> PromptTemplate:
    """Return the worker's own prompt."""
    file = resources.files("worker.decision") / "prompts" / "direct-v1.jinja"
    return PromptTemplate("direct", "1", file.read_text("utf-8"), frame or Frame())


def make_wording(labels: int = 5) -> DirectWording:
    """Return the worker's own wording, with as many labels."""
    return DirectWording(make_prompt(), LabelPool(make_labels(labels)))


def make_provenance(
    model: Mapping[str, Any] | None = None,
    prompt: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Provenance:
    values: dict[str, Any] = {
        "model": ModelProvenance(
            **{
                "name": "tiny",
                "file": "tiny.gguf",
                "sha256": "ab" * 32,
                "architecture": "llama",
                "quantization": "F32",
                "size_bytes": 1234,
            }
            | (model or {})
        ),
        "runtime": RuntimeProvenance(
            worker="0.1.0",
            llama_cpp_python="0.3.36",
            llama_cpp="b1",
            system_info="CPU",
            backend="cpu",
            gpu_layers=0,
            batching="exact",
            backends=("CPU",),
            cpu_variant="AVX2",
            libraries_sha256="ef" * 32,
            kv_type="f16",
            flash_attention="auto",
        ),
        "hardware": "a processor (2 cores, x86_64)",
        "prompt": PromptProvenance(
            **{"name": "direct", "version": "1", "sha256": "cd" * 32} | (prompt or {})
        ),
    }
    return Provenance(**values | fields)


def make_scored(
    question: Question, *probabilities: float, label_mass: float = 0.9, verdict: Verdict = NO_POLICY
) -> Answer:
    """Return the answer to *question* with these probabilities, first option first."""
    return make_answer(question, Scores(probabilities, label_mass), verdict)


def make_outcome(**fields: Any) -> Outcome:
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "outcome_id": "0" * 32,
        "ticket_id": "t-1",
        "status": "decided",
        "answers": {"desk": make_scored(make_choice(), 0.9, 0.1)},
        "disposition": "review",
        "usage": Usage(input_tokens=10, evaluated_tokens=8, reused_tokens=2),
        "timings": Timings(waiting_seconds=0.5, evaluation_seconds=0.25),
        "provenance": make_provenance(),
    }
    return Outcome(**values | fields)
