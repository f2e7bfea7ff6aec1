"""The file of a run: what was asked of whom, then a line for each case with all that came."""

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from worker.decision.outcome import Provenance, QuestionSetProvenance
from worker.decision.policy import Disposition, Temperature
from worker.decision.ticket import first_fault
from worker.errors import UsageError
from worker.lines import LineFile, open_lines, read_lines

FORMAT: Literal["decision-run/1"] = "decision-run/1"

Probe = Literal["order", "injection"]

_BEGINNING = b'{"format"'
_MOST_OFF = 1e-6  # what is written was made a distribution before

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Distribution = Annotated[tuple[_Share, ...], Field(min_length=1)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]
_Line = TypeVar("_Line", bound="_Part")


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, protected_namespaces=()
    )


class CasesSource(_Part):
    """Which cases were asked about."""

    file: str
    sha256: str
    count: int


class AskedQuestion(_Part):
    """One question of the set: its options by name, in the order of all distributions."""

    type: Literal["choice", "score", "noul"]
    options: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_options(self) -> "AskedQuestion":
        if len(set(self.options)) != len(self.options):
            raise ValueError("two options have the same name")
        return self


class Source(_Part):
    """Who answered.

    Attributes:
        target: ``local``, or a URL without user, password and query.
        model: as the answers name it.
        provenance_sha256: of everything that went into the answers; None: the server tells none.
        provenance: the same in full, where it is known.
    """

    target: str
    model: str
    provenance_sha256: str | None = None
    provenance: Provenance | None = None


class Header(_Part):
    """What a run is about; a run goes on only while all of it is the same."""

    format: Literal["decision-run/1"]
    worker: str
    cases: CasesSource
    question_set: QuestionSetProvenance
    questions: dict[str, AskedQuestion]
    probes: tuple[Probe, ...]
    source: Source


class Given(_Part):
    """What was answered to one question.

    Attributes:
        probabilities: one for each option; they sum to 1.
        label_mass: the labels' share of the whole distribution; None: not told.
        top_is_label: whether the likeliest token of all was a label; None: not told.
        disposition: what the policy said; None: not told.
        temperature: of a policy, which the probabilities went through; None: none, or not told.
    """

    probabilities: _Distribution
    label_mass: _Share | None = None
    top_is_label: bool | None = None
    disposition: Disposition | None = None
    temperature: Temperature | None = None

    @property
    def best(self) -> int:
        """The index of the most likely option; the first on a tie."""
        return self.probabilities.index(max(self.probabilities))


class Probed(_Part):
    """What was answered when the question was put in another way.

    Attributes:
        probabilities: in the order of the header's options, whatever order was shown.
        told: the index of the option that the state was made to ask for.
    """

    probabilities: _Distribution
    told: _Count | None = None

    @property
    def best(self) -> int:
        """The index of the most likely option; the first on a tie."""
        return self.probabilities.index(max(self.probabilities))


class Failure(_Part):
    """Why a case has no answers; it would have none the next time either."""

    code: str
    message: str = ""


class Result(_Part):
    """What came of one case.

    Attributes:
        case: its id.
        state_sha256: which tells a changed state, and cases that are the same.
        expected: the index of the right option, by question.
        answers: by question; empty for a failure.
        probes: by kind, then by question.
        seconds: from question to answer, for whoever asked; waiting included.
        evaluation_seconds: that the engine says it took.
        input_tokens: of all full prompts together.
        evaluated_tokens: that were decoded.
        failure: why there are no answers.
    """

    case: str
    state_sha256: str
    expected: dict[str, _Count]
    answers: dict[str, Given] = Field(default_factory=dict)
    probes: dict[Probe, dict[str, Probed]] = Field(default_factory=dict)
    seconds: _Seconds | None = None
    evaluation_seconds: _Seconds | None = None
    input_tokens: _Count | None = None
    evaluated_tokens: _Count | None = None
    failure: Failure | None = None


class RunFile:
    """An open run file.

    Args:
        file: its lines.
        known: the ids of all cases that are in it.
    """

    def __init__(self, file: LineFile, known: set[str]) -> None:
        self._file = file
        self.known = known

    def add(self, result: Result) -> None:
        """Note what came of a case; it is on disk when this returns."""
        self._file.append([_line(result)])
        self.known.add(result.case)


@contextmanager
def open_run(path: Path, header: Header) -> Iterator[RunFile]:
    """Open a run to go on with, or begin it.

    Raises:
        UsageError: the file cannot be written, is in use, is no run, or is a run of something else.
    """
    with open_lines(path, beginning=_BEGINNING, instead="--run") as file:
        lines = file.lines()
        first = next(lines, None)
        if first is not None:
            _check_same(_parse(Header, first, path, 1), header, path)
        known = {result.case for result in _results(lines, header, path)}
        file.cut_torn_line()
        if first is None:
            file.append([_line(header)])
        yield RunFile(file, known)


def read_run(path: Path) -> tuple[Header, list[Result]]:
    """Read a run; results come by case, whatever order they were noted in.

    Raises:
        UsageError: it cannot be read, or is no run.
    """
    lines = read_lines(path)
    header = _parse(Header, next(lines, b""), path, 1)
    return header, sorted(_results(lines, header, path), key=lambda result: result.case)


def _results(lines: Iterable[bytes], header: Header, path: Path) -> Iterator[Result]:
    """Read results that fit the header, each of another case."""
    known: set[str] = set()
    for number, line in enumerate(lines, 2):
        result = _parse(Result, line, path, number)
        fault = _fault(result, header)
        if fault is None and result.case in known:
            fault = "case: there is a line of the same case above"
        if fault is not None:
            raise _no_line(path, number, fault)
        known.add(result.case)
        yield result


def _fault(result: Result, header: Header) -> str | None:
    """Return why a result is none of this run; None: it is one."""
    if result.failure is not None and (result.answers or result.probes):
        return "failure: a case that has none cannot have answers"
    for key, index in result.expected.items():
        if (fault := _index_fault(header, key, index)) is not None:
            return f"expected.{key}: {fault}"
    for key, given in result.answers.items():
        if (fault := _distribution_fault(header, key, given.probabilities)) is not None:
            return f"answers.{key}: {fault}"
    for kind, probed in result.probes.items():
        for key, one in probed.items():
            fault = _distribution_fault(header, key, one.probabilities)
            fault = fault or _index_fault(header, key, one.told or 0)
            if fault is not None:
                return f"probes.{kind}.{key}: {fault}"
    return None


def _index_fault(header: Header, key: str, index: int) -> str | None:
    question = header.questions.get(key)
    if question is None:
        return "the run has no such question"
    if index >= len(question.options):
        return f"there is no option {index}, the question has {len(question.options)}"
    return None


def _distribution_fault(header: Header, key: str, probabilities: tuple[float, ...]) -> str | None:
    question = header.questions.get(key)
    if question is None:
        return "the run has no such question"
    if len(probabilities) != len(question.options):
        return f"{len(probabilities)} probabilities for {len(question.options)} options"
    if abs(math.fsum(probabilities) - 1) > _MOST_OFF:
        return "the probabilities do not sum to 1"
    return None


def _line(part: _Part) -> str:
    tree = part.model_dump(mode="json", exclude_none=True)
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _parse(kind: type[_Line], line: bytes, path: Path, number: int) -> _Line:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        where, message = first_fault(error)
        raise _no_line(path, number, f"{where}: {message}" if where else message) from None


def _no_line(path: Path, number: int, fault: str) -> UsageError:
    what = "run" if number == 1 else "line of a run"
    return UsageError(f"{path}:{number}: no {what}, as `evaluate` writes it: {fault}")


def _check_same(there: Header, here: Header, path: Path) -> None:
    one, other = there.model_dump(mode="json"), here.model_dump(mode="json")
    for place in ("cases", "question_set", "probes", "source", "questions", "worker"):
        if one[place] != other[place]:
            raise UsageError(
                f"{path} is a run of something else: {place.replace('_', ' ')}"
                f" {_shown(one[place], other[place])}; name another file with --run"
            )


def _shown(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        name = next(key for key in one if one[key] != other.get(key))
        return f"{name} {_shown(one[name], other.get(name))}"
    return f"was {json.dumps(one)}, now {json.dumps(other)}"
