"""Policies as files: rules by question, in named profiles, bound to what they were made for."""

from collections.abc import Mapping
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from worker.decision.canonical import canonical_sha256
from worker.decision.drift import Reference
from worker.decision.policy import NO_RULE, Rule, Temperature, Verdict, judge
from worker.decision.question import Question
from worker.decision.scores import Scores
from worker.decision.strict_file import read_document
from worker.errors import UsageError

_SHA256 = "^[0-9a-f]{64}$"
_SetName = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*(@[1-9][0-9]*)?$")]
_Kind = Literal["choice", "score", "noul"]

Named = TypeVar("Named")


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


class BoundPrompt(_Part):
    """Which wording a policy was made for; without a checksum, whatever is around the wording.

    Attributes:
        orders: in how many orders options were shown; None: as the wording does itself. Left out:
            in whatever number.
    """

    name: str
    version: str
    sha256: str | None = None
    orders: int | None = None


class BoundRuntime(_Part):
    """Which build a policy was made for.

    Attributes:
        llama_cpp: version and commit.
        backend: cpu, or the GPU's.
        cpu_variant: the instruction sets that the build uses on the machine.
        batching: exact or packed. Left out: whichever.
        kv_type: how keys and values are stored. Left out: whichever way.
    """

    llama_cpp: str
    backend: str
    cpu_variant: str
    batching: str | None = None
    kv_type: str | None = None


class Binding(_Part):
    """What a policy was made for. Thresholds mean nothing on another model or build.

    Attributes:
        question_sets: the hashes of the sets that it has rules about, by ``name@version``.
    """

    model_sha256: str = Field(pattern=_SHA256)
    prompt: BoundPrompt
    runtime: BoundRuntime
    question_sets: dict[str, Annotated[str, Field(pattern=_SHA256)]] = Field(default_factory=dict)


class Temperatures(_Part):
    """What the logits of answers are divided by; the most specific temperature counts, else 1.

    Attributes:
        question_sets: by ``name@version`` or ``name`` of a set, then by question.
        questions: by question, in whatever ticket.
        types: by type of question: choice, score or noul.
    """

    question_sets: dict[_SetName, dict[str, Temperature]] = Field(default_factory=dict)
    questions: dict[str, Temperature] = Field(default_factory=dict)
    types: dict[_Kind, Temperature] = Field(default_factory=dict)


class Rules(_Part):
    """One profile: the most specific rule about a question counts, as a whole.

    Attributes:
        question_sets: by ``name@version`` or ``name`` of a set, then by question.
        questions: by question, in whatever ticket.
        types: by type of question: choice, score or noul.
        default: for every other question.
    """

    question_sets: dict[_SetName, dict[str, Rule]] = Field(default_factory=dict)
    questions: dict[str, Rule] = Field(default_factory=dict)
    types: dict[_Kind, Rule] = Field(default_factory=dict)
    default: Rule | None = None


class Policy(_Part):
    """What a policy file holds.

    Attributes:
        name: how outcomes name it.
        description: for people.
        owner: whom to ask about it.
        approver: who has approved it.
        bound_to: what it was made for.
        temperatures: what makes probabilities of the model's preferences, in every profile.
        reference: how the answers were distributed that it was made with, by ``name@version`` of
            a set, then by question; later answers are compared with it.
        profiles: rules by name, such as ``cautious``.
    """

    name: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    description: str = ""
    owner: str = ""
    approver: str = ""
    bound_to: Binding
    temperatures: Temperatures = Field(default_factory=Temperatures)
    reference: dict[_SetName, dict[str, Reference]] = Field(default_factory=dict)
    profiles: dict[str, Rules] = Field(min_length=1)

    def profile(self, name: str | None = None) -> "Profile":
        """Return a profile; without a name the only one, or the one that is named ``default``.

        Raises:
            UsageError: there is none of that name, or several and none was chosen.
        """
        names = ", ".join(self.profiles)
        chosen = name or ("default" if "default" in self.profiles else None)
        if chosen is None and len(self.profiles) == 1:
            [chosen] = self.profiles
        if chosen is None:
            raise UsageError(f"policy {self.name} has several profiles, choose one of {names}")
        if chosen not in self.profiles:
            raise UsageError(f"policy {self.name} has no profile {chosen}, it has {names}")
        return Profile(self, chosen)


class Profile:
    """The rules of one profile of a policy.

    Attributes:
        policy: that it is part of.
        name: of the profile.
        sha256: of everything that the policy says, and of the profile's name.
    """

    def __init__(self, policy: Policy, name: str) -> None:
        self.policy = policy
        self.name = name
        self._rules = policy.profiles[name]
        said = policy.model_dump(mode="json", exclude_defaults=True)
        prompt = policy.bound_to.prompt
        if prompt.orders is None and "orders" in prompt.model_fields_set:
            said["bound_to"]["prompt"]["orders"] = None  # other than left out: the wording's own
        self.sha256 = canonical_sha256([said, name])

    def decide(
        self, key: str, question: Question, scores: Scores, question_set: str | None = None
    ) -> Verdict:
        """Return what to do about the answer to a question.

        Args:
            key: the question's id.
            question: that was asked.
            scores: of its options, after the temperature.
            question_set: ``name@version`` of the set that it is part of.
        """
        rule = _named(self._rules.question_sets, self._rules.questions, key, question_set)
        if rule is not None:
            options = {option.key for option in question.options()}
            if not options.issuperset(rule.abstain_on):
                # A misspelt option would let through what it was meant to stop.
                return Verdict(disposition="review", reasons=("unknown_abstain_option",))
        rule = rule or self._rules.types.get(question.type) or self._rules.default
        return NO_RULE if rule is None else judge(rule, question, scores)

    def temperature(self, key: str, question: Question, question_set: str | None = None) -> float:
        """Return what the logits of the answer to a question are divided by; 1 unless it says.

        Args:
            key: the question's id.
            question: that was asked.
            question_set: ``name@version`` of the set that it is part of.
        """
        told = self.policy.temperatures
        named = _named(told.question_sets, told.questions, key, question_set)
        return named or told.types.get(question.type, 1.0)


def _named(
    question_sets: Mapping[str, Mapping[str, Named]],
    questions: Mapping[str, Named],
    key: str,
    question_set: str | None,
) -> Named | None:
    """Return what names the question: in its set's version, in its set, or anywhere."""
    if question_set is not None:
        for name in (question_set, question_set.rpartition("@")[0]):
            found = question_sets.get(name, {}).get(key)
            if found is not None:
                return found
    return questions.get(key)


class Decider(Protocol):
    """What turns scores into verdicts: a profile, or always the same."""

    def decide(
        self, key: str, question: Question, scores: Scores, question_set: str | None = None
    ) -> Verdict:
        """Return what to do about the answer to a question; see :class:`Profile`."""
        ...

    def temperature(self, key: str, question: Question, question_set: str | None = None) -> float:
        """Return what the logits of its answer are divided by first; see :class:`Profile`."""
        ...


def read_policy(name: str, content: bytes) -> Policy:
    """Parse a policy file.

    Raises:
        UsageError: naming the file, the place and the reason.
    """
    return read_document(Policy, name, content)


def mismatches(bound: Binding, here: Binding) -> list[str]:
    """Return each thing that a policy was made for and that is another here, naming both.

    A question set that is not here is none: nobody can ask it.
    """
    pairs = [
        ("model sha256", bound.model_sha256, here.model_sha256),
        ("prompt", _wording(bound.prompt), _wording(here.prompt)),
        ("llama.cpp", bound.runtime.llama_cpp, here.runtime.llama_cpp),
        ("backend", bound.runtime.backend, here.runtime.backend),
        ("CPU variant", bound.runtime.cpu_variant, here.runtime.cpu_variant),
        *_optional_pairs(bound, here),
        *(
            (f"question set {key}", sha256, here.question_sets.get(key, sha256))
            for key, sha256 in bound.question_sets.items()
        ),
    ]
    return [f"{what}: made for {one}, here {other}" for what, one, other in pairs if one != other]


def _optional_pairs(bound: Binding, here: Binding) -> list[tuple[str, str, str]]:
    """Return what is compared only where the policy says it."""
    pairs = [
        ("prompt sha256", bound.prompt.sha256, here.prompt.sha256),
        ("batching", bound.runtime.batching, here.runtime.batching),
        ("KV type", bound.runtime.kv_type, here.runtime.kv_type),
    ]
    if "orders" in bound.prompt.model_fields_set:
        pairs.append(("orders", _orders(bound.prompt), _orders(here.prompt)))
    return [(what, one, other or "unknown") for what, one, other in pairs if one is not None]


def _wording(prompt: BoundPrompt) -> str:
    return f"{prompt.name}-v{prompt.version}"


def _orders(prompt: BoundPrompt) -> str:
    return "the wording's own" if prompt.orders is None else str(prompt.orders)
