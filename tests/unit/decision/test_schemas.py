"""The JSON Schemas that ship: current, and of one mind with what validates."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.factories import QUESTIONS, make_outcome, make_provenance, make_tree
from tests.golden.cases import read_cases
from worker.decision.model_manifest import read_manifest
from worker.decision.outcome import QuestionSetProvenance, rejection
from worker.decision.policy_file import read_policy
from worker.decision.question_set import QuestionSet
from worker.decision.schemas import NAMES, Name, make, shipped
from worker.decision.strict_file import parse_file, read_document
from worker.decision.ticket import validate_ticket
from worker.errors import Rejected, UsageError
from worker.local.sample_tickets import SUPPORT_DESK, sample_desk

TOOL = "python tools/write_schemas.py"


def validator(name: Name) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(shipped(name)))


def passes(name: Name, tree: Any) -> bool:
    """Whether a tree passes the worker's own validation."""
    content = json.dumps(tree).encode()
    try:
        match name:
            case "ticket":
                validate_ticket(tree)
            case "question-set":
                read_document(QuestionSet, "a.json", content)
            case "model-manifest":
                read_manifest("a.json", content)
            case _:
                read_policy("a.json", content)
    except (Rejected, UsageError):
        return False
    return True


def changed(tree: dict[str, Any], *places: tuple[str, Any]) -> dict[str, Any]:
    """Return a copy with other values at dotted places; ... removes what is there."""
    copy: dict[str, Any] = json.loads(json.dumps(tree))
    for place, value in places:
        *above, last = place.split(".")
        part: Any = copy
        for name in above:
            part = part[int(name) if isinstance(part, list) else name]
        if value is ...:
            del part[last]
        else:
            part[last] = value
    return copy


@pytest.mark.parametrize("name", NAMES)
def test_what_ships_is_what_the_models_say(name: Name) -> None:
    """A model that changes without its schema would let editors and clients write what fails."""
    made = make(name)

    assert json.loads(shipped(name)) == made, f"run {TOOL} and read the diff"
    jsonschema.Draft202012Validator.check_schema(made)


TICKET = make_tree()
SET: dict[str, Any] = {
    "name": "triage",
    "version": 3,
    "questions": QUESTIONS,
    "defaults": {"orders": 2, "attributes": ["desk", "heat"]},
    "examples": [{"state": "x", "answers": {"desk": "tech", "heat": 1, "refund": True}}],
}
POLICY: dict[str, Any] = {
    "name": "desk",
    "bound_to": {
        "model_sha256": "0" * 64,
        "prompt": {"name": "direct", "version": "1"},
        "runtime": {"llama_cpp": "b1", "backend": "cpu", "cpu_variant": "AVX2"},
    },
    "profiles": {
        "default": {
            "question_sets": {"triage": {"refund": {"accept": 0.9, "abstain_on": ["false"]}}},
            "questions": {"team": {"accept": 1, "on": "confidence", "margin": 0.2}},
            "types": {"score": {"min_label_mass": 0.5}},
            "default": {},
        }
    },
}
MANIFEST: dict[str, Any] = {
    "schema": "model-manifest/1",
    "file": "model.gguf",
    "sha256": "0" * 64,
    "question_sets": [{"file": "question-sets/a.yaml", "sha256": "1" * 64}],
}
CHOICE = "questions.desk"
NOUL = "questions.refund"

GOOD: list[tuple[Name, dict[str, Any], tuple[tuple[str, Any], ...]]] = [
    ("ticket", TICKET, ()),
    ("ticket", TICKET, (("state", {"a": [1, None]}),)),
    ("ticket", TICKET, (("state", ""), ("unknown", 1), ("model", "jev-1"), ("images", []))),
    ("ticket", TICKET, (("state", ...), ("state_uri", "s3://a/b"))),
    ("ticket", TICKET, (("state_uri", None), ("question_set", None), ("metadata", {"a": "b"}))),
    ("ticket", TICKET, (("questions", ...), ("question_set", "triage@3"))),
    ("ticket", TICKET, ((f"{CHOICE}.criteria", {"a": {"b": 1}, "c": ["d"]}),)),
    ("ticket", TICKET, ((f"{CHOICE}.instructions", ...),)),
    ("ticket", TICKET, ((NOUL, {"type": "noul", "criteria": {"false": "no"}}),)),
    ("ticket", TICKET, ((NOUL, {"type": "noul", "instructions": {"a": 1}, "criteria": None}),)),
    ("question-set", SET, ()),
    ("question-set", SET, (("defaults", ...), ("examples", ...), ("languages", ["de"]))),
    ("policy", POLICY, ()),
    ("policy", POLICY, (("bound_to.prompt.sha256", "ab"), ("profiles.bold", {}), ("owner", "x"))),
    ("model-manifest", MANIFEST, (("repository", "a/b"), ("question_sets", ...))),
]

BAD: list[tuple[Name, dict[str, Any], tuple[tuple[str, Any], ...]]] = [
    ("ticket", TICKET, (("state", ...),)),
    ("ticket", TICKET, (("state", None),)),
    ("ticket", TICKET, (("state", 1),)),
    ("ticket", TICKET, (("state_uri", "s3://a/b"),)),
    ("ticket", TICKET, (("questions", ...),)),
    ("ticket", TICKET, (("questions", {}),)),
    ("ticket", TICKET, (("question_set", "triage"),)),
    ("ticket", TICKET, (("questions", {"": QUESTIONS["refund"]}),)),
    ("ticket", TICKET, (("questions", {str(n): QUESTIONS["refund"] for n in range(257)}),)),
    ("ticket", TICKET, (("ticket_id", "x" * 129),)),
    ("ticket", TICKET, (("metadata", {"a": 1}),)),
    ("ticket", TICKET, (("metadata", {str(n): "" for n in range(17)}),)),
    ("ticket", TICKET, (("images", ["x"]),)),
    ("ticket", TICKET, (("assets", {"a": 1}),)),
    ("ticket", TICKET, ((f"{CHOICE}.type", "boolean"),)),
    ("ticket", TICKET, ((f"{CHOICE}.type", ...),)),
    ("ticket", TICKET, ((f"{CHOICE}.criteria", {}),)),
    ("ticket", TICKET, ((f"{CHOICE}.criteria", {"": None}),)),
    ("ticket", TICKET, ((f"{CHOICE}.criteria", {str(n): None for n in range(256)}),)),
    ("ticket", TICKET, ((f"{CHOICE}.levels", ["a"]),)),
    ("ticket", TICKET, (("questions.heat.criteria", [None]),)),
    ("ticket", TICKET, (("questions.heat.criteria", ["a"] * 11),)),
    ("ticket", TICKET, ((NOUL, {"type": "noul"}),)),
    ("ticket", TICKET, ((NOUL, {"type": "noul", "instructions": ""}),)),
    ("ticket", TICKET, ((NOUL, {"type": "noul", "instructions": {}, "criteria": {"true": []}}),)),
    ("ticket", TICKET, ((f"{NOUL}.criteria", {"yes": "x"}),)),
    ("question-set", SET, (("name", "with space"),)),
    ("question-set", SET, (("version", 0),)),
    ("question-set", SET, (("version", "3"),)),
    ("question-set", SET, (("questions", {}),)),
    ("question-set", SET, (("questions", {"": QUESTIONS["desk"]}), ("defaults", {}),
                           ("examples", []))),
    ("question-set", SET, (("unknown", 1),)),
    ("question-set", SET, (("defaults.orders", 33),)),
    ("question-set", SET, (("defaults.attributes", ["desk", "desk"]),)),
    ("question-set", SET, (("questions.a b", QUESTIONS["desk"]), ("defaults.attributes", ["a b"]))),
    ("question-set", SET, (("examples.0.state", 1),)),
    ("policy", POLICY, (("bound_to", ...),)),
    ("policy", POLICY, (("bound_to.model_sha256", "AB" * 32),)),
    ("policy", POLICY, (("bound_to.runtime.backend", ...),)),
    ("policy", POLICY, (("profiles", {}),)),
    ("policy", POLICY, (("profiles.default.unknown", {}),)),
    ("policy", POLICY, (("profiles.default.default", {"accept": 1.5}),)),
    ("policy", POLICY, (("profiles.default.default", {"accept": True}),)),
    ("policy", POLICY, (("profiles.default.default", {"on": "mass"}),)),
    ("policy", POLICY, (("profiles.default.types", {"score": None}),)),
    ("model-manifest", MANIFEST, (("sha256", "AB" * 32),)),
    ("model-manifest", MANIFEST, (("file", "../model.gguf"),)),
    ("model-manifest", MANIFEST, (("schema", "model-manifest/2"),)),
    ("model-manifest", MANIFEST, (("policy", {"file": "/etc/policy", "sha256": "0" * 64}),)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tree", "changes"), GOOD)
def test_what_passes_fits_the_schema(
    name: Name, tree: dict[str, Any], changes: tuple[tuple[str, Any], ...]
) -> None:
    """Nobody's good file is marked as wrong."""
    example = changed(tree, *changes)

    assert passes(name, example)
    validator(name).validate(example)


@pytest.mark.parametrize(("name", "tree", "changes"), BAD)
def test_what_fails_does_not_fit(
    name: Name, tree: dict[str, Any], changes: tuple[tuple[str, Any], ...]
) -> None:
    """What an editor lets through is not refused at start, as far as a schema can tell."""
    example = changed(tree, *changes)

    assert not passes(name, example)
    assert not validator(name).is_valid(example)


def test_samples_fit() -> None:
    """The demo's tickets, those of the golden outcomes, and the demo's question set."""
    tickets = [*sample_desk().tickets, *(case.tree["ticket"] for case in read_cases())]
    desk = parse_file(SUPPORT_DESK.name, SUPPORT_DESK.read_bytes())

    validator("question-set").validate(desk)
    for tree in tickets:
        validator("ticket").validate(tree)


def test_published_outcomes_fit() -> None:
    """Golden ones, one with every part, and a rejection of what was no ticket."""
    whole = make_outcome(
        metadata={"a": "b"},
        provenance=make_provenance(
            image_digest="sha256:0", instance_type="c7i.large", questions_sha256="0" * 64,
            question_set=QuestionSetProvenance(name="triage", version=3, sha256="1" * 64),
        ),
    )  # fmt: skip
    refused = rejection(
        Rejected("invalid_ticket", "needs a state"),
        ticket_id="t", body="{", ticket=None, provenance=make_provenance(),
    )  # fmt: skip
    outcomes = [case.outcome for case in read_cases()]
    outcomes += [json.loads(one.as_json()) for one in (whole, refused)]

    assert [] == [
        f"{error.json_path}: {error.message}"
        for tree in outcomes
        for error in validator("outcome").iter_errors(tree)
    ]


@pytest.mark.parametrize(
    "change",
    [
        ("answers", ...),
        ("disposition", ...),
        ("status", "rejected"),
        ("schema", "decision-outcome/2"),
        ("metadata", ...),
        ("answers.desk.type", "noul"),
        ("answers.desk.verdict.disposition", "maybe"),
        ("provenance.model.sha256", ...),
        ("provenance.policy", None),
    ],
)
def test_what_is_never_published_does_not_fit(change: tuple[str, Any]) -> None:
    """A subscriber can rely on what the schema requires."""
    assert not validator("outcome").is_valid(changed(make_outcome().as_dict(), change))


def test_schemas_lie_in_the_package() -> None:
    """Beside the code, where a wheel takes every file from; and with a sentence on each field."""
    folder = Path(__file__).parents[3] / "worker" / "decision" / "schemas"
    described = json.loads(shipped("question-set"))["properties"]["version"]["description"]

    assert {f"{name}.schema.json" for name in NAMES} == {p.name for p in folder.glob("*.json")}
    assert "a new wording is a new version." == described
