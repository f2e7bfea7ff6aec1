"""Question sets: questions that are written once, approved, and asked by name.

A set is known by name and version. What a version asks never changes: an outcome that names it
can be explained for as long as the file is kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from worker.decision.attributes import MAX_ANSWERS, can_be_attribute
from worker.decision.canonical import canonical_sha256
from worker.decision.orders import MAX_ORDERS
from worker.decision.overflow import Aggregation, NoulAggregation, OverflowRule
from worker.decision.question import Question, Text
from worker.decision.strict_file import read_document
from worker.decision.ticket import MAX_QUESTIONS
from worker.errors import Rejected, UsageError

MAX_VERSION = 1_000_000_000
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_ASKED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]{0,63})(@(?P<version>[1-9][0-9]{0,8}))?")
_LISTED = 20
"""How many configured sets a rejection names."""


class _Part(BaseModel):
    # hide_input_in_errors: questions are text that whoever wrote them may not want in a log.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class Defaults(_Part):
    """How a set's questions are asked, unless something else is said.

    Attributes:
        orders: in how many orders options are shown; None: as the model's wording does itself.
        attributes: questions whose answers are message attributes, for filter policies.
        overflow: what becomes of a state that is too long for one prompt; None: as the worker is
            set, like the two below.
        aggregation: how answers to choices and scores come of those of a state's windows.
        noul_aggregation: how those to nouls do.
    """

    orders: int | None = Field(default=None, ge=1, le=MAX_ORDERS)
    attributes: list[str] | None = Field(default=None, max_length=MAX_ANSWERS)
    overflow: OverflowRule | None = None
    aggregation: Aggregation | None = None
    noul_aggregation: NoulAggregation | None = None


class Example(_Part):
    """A state, and the answers that whoever wrote the set expects; nothing is computed from it."""

    state: Text
    answers: dict[str, str | int | float | bool] = Field(default_factory=dict)
    note: str | None = None


class QuestionSet(_Part):
    """What a file of questions holds.

    Attributes:
        name: letters, digits, ``_``, ``.`` and ``-``.
        version: a new wording is a new version.
        description: what the set is for.
        owner: whom to ask about it.
        approver: who has approved it.
        languages: that its states are in.
        questions: by id, as in a System One request.
        defaults: how they are asked.
        examples: for people, and for checks.
    """

    name: str = Field(pattern=_NAME)
    version: int = Field(ge=1, lt=MAX_VERSION)
    description: str = ""
    owner: str = ""
    approver: str = ""
    languages: list[str] = Field(default_factory=list)
    questions: dict[str, Question] = Field(min_length=1, max_length=MAX_QUESTIONS)
    defaults: Defaults = Field(default_factory=Defaults)
    examples: list[Example] = Field(default_factory=list)

    @field_validator("questions")
    @classmethod
    def _have_ids(cls, questions: dict[str, Question]) -> dict[str, Question]:
        if "" in questions:
            raise ValueError("a question has an empty id")
        return questions

    @model_validator(mode="after")
    def _fits_its_questions(self) -> "QuestionSet":
        attributes = self.defaults.attributes or []
        if unknown := [key for key in attributes if key not in self.questions]:
            raise ValueError(f"defaults.attributes: there is no question {unknown[0]}")
        if len(set(attributes)) < len(attributes):
            raise ValueError("defaults.attributes: a question is named twice")
        if odd := [key for key in attributes if not can_be_attribute(key)]:
            raise ValueError(f"defaults.attributes: SNS takes no attribute for question {odd[0]}")
        for place, example in enumerate(self.examples):
            if unknown := [key for key in example.answers if key not in self.questions]:
                raise ValueError(f"examples.{place}.answers: there is no question {unknown[0]}")
        return self

    @property
    def key(self) -> str:
        """Name and version, as a ticket may ask for it."""
        return f"{self.name}@{self.version}"

    def sha256(self) -> str:
        """Hash everything the file says, however it is laid out.

        Fields that a later release adds do not change the hash while a file does not use them.
        """
        return canonical_sha256(self.model_dump(mode="json", exclude_defaults=True))


class QuestionSets:
    """Sets by name and version, in no way to be changed.

    Args:
        sets: of different names or versions.
        seen: hashes by ``name@version`` of every set that there ever was.
    """

    def __init__(
        self, sets: Iterable[QuestionSet] = (), seen: Mapping[str, str] | None = None
    ) -> None:
        self._versions: dict[str, dict[int, QuestionSet]] = {}
        for one in sorted(sets, key=lambda one: (one.name, one.version)):
            self._versions.setdefault(one.name, {})[one.version] = one
        self.seen = dict(seen or {}) | {one.key: one.sha256() for one in self}

    def __iter__(self) -> Iterator[QuestionSet]:
        """Yield all sets by name, then by version."""
        for versions in self._versions.values():
            yield from versions.values()

    def __len__(self) -> int:
        return sum(map(len, self._versions.values()))

    def find(self, asked: str) -> QuestionSet:
        """Return the set that a ticket asks for: ``name@version``, or the highest of ``name``.

        Raises:
            Rejected: there is none.
        """
        match = _ASKED.fullmatch(asked)
        versions = self._versions.get(match["name"], {}) if match else {}
        if match and versions:
            version = int(match["version"]) if match["version"] else max(versions)
            if version in versions:
                return versions[version]
        raise Rejected("unknown_question_set", f"no such set; {self._configured()}", "question_set")

    def _configured(self) -> str:
        keys = [one.key for one in self]
        if not keys:
            return "this worker has none"
        more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
        return f"this worker has {', '.join(keys[:_LISTED])}{more}"


NO_SETS = QuestionSets()


def load_question_sets(
    files: Iterable[tuple[str, bytes]], before: QuestionSets | None = None
) -> QuestionSets:
    """Read question sets, wherever their files come from.

    Args:
        files: name and content of each.
        before: what was loaded until now; a version of it must not have changed.

    Raises:
        UsageError: everything that is wrong, each with its file and place.
    """
    seen = {} if before is None else dict(before.seen)
    here: dict[str, str] = {}
    sets: dict[str, QuestionSet] = {}
    faults: list[str] = []
    for name, content in files:
        try:
            found = read_document(QuestionSet, name, content)
            _check_version(found, name, seen, here)
        except UsageError as error:
            faults.append(str(error))
        else:
            sets[found.key] = found
    if faults:
        raise UsageError(f"question sets: {'; '.join(faults)}")
    return QuestionSets(sets.values(), seen)


def _check_version(
    found: QuestionSet, name: str, seen: dict[str, str], here: dict[str, str]
) -> None:
    sha256 = found.sha256()
    known = seen.setdefault(found.key, sha256)
    first = here.setdefault(found.key, name)
    if known == sha256:
        return
    there = "before" if first == name else f"in {first}"
    raise UsageError(
        f"{name}: version: {found.key} had other content {there} ({known[:12]}, now"
        f" {sha256[:12]}); a change needs a new version"
    )


def is_question_set_file(name: str) -> bool:
    """Return whether a file's name says that it holds a question set."""
    return name.lower().endswith((".yaml", ".yml", ".json")) and not name.startswith(".")


def describe(one: QuestionSet) -> dict[str, Any]:
    """Return what there is to know about a set, without its questions' text."""
    return {
        "name": one.name,
        "version": one.version,
        "questions": list(one.questions),
        "sha256": one.sha256(),
        "owner": one.owner,
        "approver": one.approver,
        "languages": one.languages,
        "description": one.description,
        "defaults": one.defaults.model_dump(mode="json", exclude_none=True),
    }
