"""The outcome: what is published about one ticket. No text of its state, ever."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from worker.decision.answer import Answer
from worker.decision.canonical import canonical_sha256
from worker.decision.overflow import Aggregation, NoulAggregation, Overflow
from worker.decision.policy import Disposition
from worker.decision.question import Question
from worker.decision.ticket import Ticket
from worker.decision.windows import VERSION
from worker.errors import Rejected

FORBIDDEN = "\ufffe\uffff"
"""Characters that neither SQS nor SNS takes, beside control characters."""

SCHEMA: Literal["decision-outcome/1"] = "decision-outcome/1"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, protected_namespaces=())


class ModelProvenance(_Part):
    """Which model file answered."""

    name: str
    file: str
    sha256: str
    architecture: str
    quantization: str
    size_bytes: int


class RuntimeProvenance(_Part):
    """Which build of the worker and of llama.cpp answered, and how it was set.

    Attributes:
        llama_cpp: version and commit.
        system_info: llama.cpp's own words on compile flags and instruction sets.
        backend: that the weights are on: cpu, or the GPU's.
        backends: that are compiled in.
        cpu_variant: the instruction sets in use, without the words around them.
        libraries_sha256: of llama.cpp's shared libraries.
        ubatch_tokens: computed at once, on which last bits depend; None: not told.
    """

    worker: str
    llama_cpp_python: str
    llama_cpp: str
    system_info: str
    backend: str
    gpu_layers: int
    batching: Literal["exact", "packed"]
    backends: tuple[str, ...] = ()
    cpu_variant: str = ""
    libraries_sha256: str = ""
    kv_type: str = ""
    flash_attention: str = ""
    ubatch_tokens: int | None = None


class PromptProvenance(_Part):
    """Which wording was used.

    Attributes:
        orders: in how many orders options were shown; None: as the wording does itself.
    """

    name: str
    version: str
    sha256: str
    orders: int | None = None

    @property
    def identity(self) -> str:
        """The hash, with the orders where they were asked for: answers depend on both."""
        return self.sha256 if self.orders is None else f"{self.sha256}, {self.orders} orders"


class QuestionSetProvenance(_Part):
    """Which configured set was asked."""

    name: str
    version: int
    sha256: str


class PolicyProvenance(_Part):
    """Which policy turned scores into verdicts."""

    name: str
    profile: str
    sha256: str


class WindowsProvenance(_Part):
    """How a state that was too long for one prompt was read.

    Attributes:
        version: of the rules that windows are cut by.
        count: how many windows there were.
        window_tokens: the longest prompt, question included.
        question_tokens: of those kept for a question.
        overlap_tokens: the most that a window repeats of the one before.
        aggregation: how answers to choices and scores came of those of the windows.
        noul_aggregation: how those to nouls did.
    """

    version: int
    count: int
    window_tokens: int
    question_tokens: int
    overlap_tokens: int
    aggregation: Aggregation
    noul_aggregation: NoulAggregation


class Provenance(_Part):
    """Everything that went into an answer, except the ticket."""

    model: ModelProvenance
    runtime: RuntimeProvenance
    image_digest: str | None = None
    hardware: str
    instance_type: str | None = None
    prompt: PromptProvenance
    question_set: QuestionSetProvenance | None = None
    questions_sha256: str | None = None
    policy: PolicyProvenance | None = None
    windows: WindowsProvenance | None = None

    def in_orders(self, orders: int | None) -> "Provenance":
        """Return the same with options shown in that many orders."""
        prompt = self.prompt.model_copy(update={"orders": orders})
        return self.model_copy(update={"prompt": prompt})

    def in_windows(self, overflow: Overflow, count: int) -> "Provenance":
        """Return the same with the state read in that many windows."""
        windows = WindowsProvenance(
            version=VERSION,
            count=count,
            window_tokens=overflow.window_tokens,
            question_tokens=overflow.question_tokens,
            overlap_tokens=overflow.overlap_tokens,
            aggregation=overflow.aggregation,
            noul_aggregation=overflow.noul_aggregation,
        )
        return self.model_copy(update={"windows": windows})


class Usage(_Part):
    """Tokens of one ticket.

    Attributes:
        input_tokens: of all full prompts together.
        evaluated_tokens: that were decoded.
        reused_tokens: the difference, which shared and parked trunks saved.
    """

    input_tokens: int
    evaluated_tokens: int
    reused_tokens: int


class Timings(_Part):
    """Seconds that one ticket took.

    Attributes:
        waiting_seconds: in the engine's queue.
        evaluation_seconds: from the first call to the last reading.
    """

    waiting_seconds: float
    evaluation_seconds: float


class Fault(_Part):
    """Why a ticket was rejected, and where in it."""

    code: str
    message: str
    where: str


class Outcome(_Part):
    """What became of one ticket (``decision-outcome/1``).

    Attributes:
        attribute_ids: the questions whose answers are message attributes; None: the first. Not
            published itself.
    """

    schema_: Literal["decision-outcome/1"] = Field(SCHEMA, alias="schema")
    outcome_id: str
    ticket_id: str
    status: Literal["decided", "rejected"]
    answers: dict[str, Answer] | None = None
    disposition: Disposition | None = None
    error: Fault | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    usage: Usage | None = None
    timings: Timings | None = None
    provenance: Provenance
    attribute_ids: tuple[str, ...] | None = Field(default=None, exclude=True)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as published; parts it does not have are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def as_json(self) -> str:
        """Return the outcome as published, as JSON text."""
        text = json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False)
        return text.translate({ord(c): f"\\u{ord(c):04x}" for c in FORBIDDEN})


def questions_sha256(questions: dict[str, Question]) -> str:
    """Hash a ticket's questions, ids included."""
    return canonical_sha256(
        {key: question.model_dump(mode="json") for key, question in questions.items()}
    )


def outcome_id(*, ticket_id: str, state: Any, questions: str, provenance: Provenance) -> str:
    """Return the id that every evaluation of the same ticket by the same worker shares.

    Args:
        ticket_id: the ticket's.
        state: the ticket's state.
        questions: the hash of the ticket's questions.
        provenance: whose hashes of model, prompt and policy count, and how the state was read.

    Returns:
        The first 32 hex digits of the SHA-256 over ticket id and hashes.
    """
    parts = [
        ticket_id,
        canonical_sha256(state),
        questions,
        provenance.model.sha256,
        provenance.prompt.identity,
        provenance.policy.sha256 if provenance.policy else "",
    ]
    if provenance.windows is not None:
        parts.append(canonical_sha256(provenance.windows.model_dump()))
    return canonical_sha256(parts)[:32]


def rejection(
    fault: Rejected, *, ticket_id: str, body: str, ticket: Ticket | None, provenance: Provenance
) -> Outcome:
    """Word the rejection of a ticket.

    Args:
        fault: the reason.
        ticket_id: the ticket's id, or the message's when the ticket could not be read.
        body: the raw body, which identifies the rejection when the ticket could not be read.
        ticket: the ticket, when it could be read.
        provenance: of the worker.
    """
    return Outcome(
        schema=SCHEMA,
        outcome_id=outcome_id(
            ticket_id=ticket_id, state=body, questions=fault.code, provenance=provenance
        ),
        ticket_id=ticket_id,
        status="rejected",
        error=Fault(code=fault.code, message=fault.message, where=fault.where),
        metadata=ticket.metadata if ticket else {},
        provenance=provenance,
    )
