"""The wire format of AWS's SemIf sample to and from tickets and outcomes."""

import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from worker.decision.answer import ChoiceAnswer
from worker.decision.evidence import Evidence, Witness
from worker.decision.outcome import Outcome, Provenance
from worker.decision.question import Choice, Question, Text
from worker.decision.ticket import Ticket, first_fault
from worker.errors import Bug, Rejected
from worker.sidecar.refusal import Refusal

MAX_SHARED_DECISIONS = 8
MIN_OPTIONS, MAX_OPTIONS = 2, 16
MAX_DECISION_TOKENS = 4096
MAX_REQUEST_TOKENS = 8192
"""All decisions of a request together: each of several may have its share."""
FIELDS = frozenset(("decision", "decisions"))
"""Any of these at the top of a body says that it is the sample's."""

_READOUT = "last-position logits restricted to declared labels; no generated tokens"
_STATUS = "conditional option score; a policy says what may be done with it"
_INVALID = "invalid_ticket"


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, protected_namespaces=()
    )


class SemifOption(_Part, extra="ignore"):
    """One admissible answer."""

    id: str = Field(min_length=1)
    description: str


class SemifDecision(_Part, extra="ignore"):
    """One question about a state, with its options in order."""

    id: str = Field(min_length=1)
    state: Text
    question: str = Field(min_length=1)
    options: list[SemifOption] = Field(min_length=MIN_OPTIONS, max_length=MAX_OPTIONS)

    @model_validator(mode="after")
    def _ids_differ(self) -> "SemifDecision":
        if len({option.id for option in self.options}) < len(self.options):
            raise ValueError("two options have the same id")
        return self


class SemifRequest(_Part):
    """One decision, or several about the same state."""

    decision: SemifDecision | None = None
    decisions: list[SemifDecision] | None = Field(
        default=None, min_length=1, max_length=MAX_SHARED_DECISIONS
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "SemifRequest":
        if (self.decision is None) == (self.decisions is None):
            raise ValueError("needs exactly one of decision and decisions")
        shared = self.decisions or []
        if any(decision.state != shared[0].state for decision in shared):
            raise ValueError("all decisions must have the same state")
        if len({decision.id for decision in shared}) < len(shared):
            raise ValueError("two decisions have the same id")
        return self

    def asked(self) -> list[SemifDecision]:
        """Return the decisions, however many."""
        return [self.decision] if self.decision is not None else self.decisions or []


class SemifResult(_Part):
    """The distribution over one decision's options."""

    id: str
    option_ids: list[str]
    probabilities: list[float]
    option_logits: list[float]
    answer_token_ids: list[int]
    input_tokens: int
    allowed_token_mass: float
    full_vocab_argmax_id: int
    prompt_sha256: str
    prompt_version: str
    model: dict[str, Any]
    readout: str
    probability_status: str
    forward_seconds: float
    total_seconds: float


class SemifTiming(_Part):
    """What several decisions took together."""

    batch_size: int
    prefix_tokens: int
    input_tokens: int
    evaluated_tokens: int
    max_request_tokens: int
    max_tokens_per_decision: int
    total_seconds: float


class SemifSingle(_Part):
    """The answer to ``decision``."""

    result: SemifResult


class SemifShared(_Part):
    """The answer to ``decisions``, in their order."""

    results: list[SemifResult]
    timing: SemifTiming


class SemifError(_Part):
    """What the sample answers when it does not answer."""

    error: str
    retryable: bool


def read_request(tree: Any, spells_control: Callable[[str], bool]) -> SemifRequest:
    """Validate a parsed request.

    Args:
        tree: an object with one of :data:`FIELDS`.
        spells_control: whether a text holds the spelling of a control token, which the sample
            refuses.

    Raises:
        Rejected: with the place and the reason.
    """
    try:
        request = SemifRequest.model_validate(tree)
    except ValidationError as error:
        where, message = first_fault(error)
        raise Rejected(_INVALID, message, where) from None
    if any(spells_control(text) for text in _texts(tree)):
        raise Rejected(_INVALID, "a decision holds the spelling of a control token")
    return request


def to_ticket(request: SemifRequest, request_id: str) -> Ticket:
    """Return the ticket that asks the same."""
    asked = request.asked()
    questions: dict[str, Question] = {
        decision.id: Choice(
            type="choice",
            instructions=decision.question,
            criteria={option.id: option.description or None for option in decision.options},
        )
        for decision in asked
    }
    return Ticket(ticket_id=request_id, state=asked[0].state, questions=questions)


def max_tokens_each(request: SemifRequest) -> int:
    """Return how many tokens the prompt of each decision may have."""
    return min(MAX_DECISION_TOKENS, MAX_REQUEST_TOKENS // len(request.asked()))


def write_answer(request: SemifRequest, outcome: Outcome, witness: Witness) -> dict[str, Any]:
    """Word an outcome as the sample does.

    Args:
        request: that was asked.
        outcome: of its ticket.
        witness: saw what the answers were read from.
    """
    results = [
        _result(decision, outcome, evidence)
        for decision, evidence in zip(request.asked(), witness.seen, strict=True)
    ]
    if request.decision is not None:
        return SemifSingle(result=results[0]).model_dump()
    usage, timings = outcome.usage, outcome.timings
    timing = SemifTiming(
        batch_size=len(results),
        prefix_tokens=witness.trunk_tokens,
        input_tokens=usage.input_tokens if usage else 0,
        evaluated_tokens=usage.evaluated_tokens if usage else 0,
        max_request_tokens=MAX_REQUEST_TOKENS,
        max_tokens_per_decision=max_tokens_each(request),
        total_seconds=timings.waiting_seconds + timings.evaluation_seconds if timings else 0.0,
    )
    return SemifShared(results=results, timing=timing).model_dump()


def write_error(refusal: Refusal) -> dict[str, Any]:
    """Word a refusal as the sample does."""
    where = f"{refusal.where}: " if refusal.where else ""
    error = SemifError(error=where + refusal.message, retryable=refusal.is_retryable)
    return error.model_dump()


def status_of(refusal: Refusal) -> int:
    """Return the sample's status: what is wrong with a body is 400, whatever it is."""
    return 400 if refusal.status in (413, 422) else refusal.status


def _result(decision: SemifDecision, outcome: Outcome, evidence: Evidence) -> SemifResult:
    answer = (outcome.answers or {})[decision.id]
    if not isinstance(answer, ChoiceAnswer):
        raise Bug("a choice was answered by something else")
    timings = outcome.timings
    evaluating = timings.evaluation_seconds if timings else 0.0
    waiting = timings.waiting_seconds if timings else 0.0
    keys = [option.id for option in decision.options]
    return SemifResult(
        id=decision.id,
        option_ids=keys,
        probabilities=[answer.probabilities[key] for key in keys],
        # JSON has no infinity, which a model may give a token that it rules out.
        option_logits=[max(logit, -sys.float_info.max) for logit in evidence.option_logits],
        answer_token_ids=list(evidence.option_tokens),
        input_tokens=evidence.prompt_tokens,
        allowed_token_mass=answer.label_mass,
        full_vocab_argmax_id=evidence.top_token,
        prompt_sha256=evidence.prompt_sha256,
        prompt_version=f"{outcome.provenance.prompt.name}-v{outcome.provenance.prompt.version}",
        model=_model(outcome.provenance),
        readout=_READOUT,
        probability_status=_STATUS,
        forward_seconds=evaluating,
        total_seconds=waiting + evaluating,
    )


def _model(provenance: Provenance) -> dict[str, Any]:
    model, runtime = provenance.model, provenance.runtime
    return {
        "source": model.name,
        "revision": model.sha256,
        "backend": "llamacpp",
        "dtype": model.quantization,
        "gguf": {"file": model.file, "bytes": model.size_bytes, "sha256": model.sha256},
        "llama_cpp_python_version": runtime.llama_cpp_python,
        "n_gpu_layers": runtime.gpu_layers,
        "gpu_offload_requested": runtime.gpu_layers != 0,
        "registered_backends": list(runtime.backends),
        "max_request_tokens": MAX_REQUEST_TOKENS,
    }


def _texts(tree: Any) -> list[str]:
    """Return every text of a parsed body, keys included."""
    found: list[str] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, dict):
            found += node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return found
