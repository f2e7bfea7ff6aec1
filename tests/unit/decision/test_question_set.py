"""Question sets: files, versions that never change, and what a ticket gets by name."""

import json
from typing import Any

import pytest

from tests.factories import QUESTIONS
from worker.decision.question_set import QuestionSets, load_question_sets
from worker.decision.strict_file import parse_file
from worker.errors import Rejected, UsageError


def make_file(name: str = "desk", version: int = 1, **fields: Any) -> tuple[str, bytes]:
    tree = {"name": name, "version": version, "questions": QUESTIONS, **fields}
    return f"{name}-{version}.json", json.dumps(tree).encode()


def refusal(*files: tuple[str, bytes], before: QuestionSets | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        load_question_sets(files, before)
    return str(caught.value)


def test_versions_live_side_by_side() -> None:
    """A name alone is its highest version; a version is exactly that one."""
    sets = load_question_sets([make_file(version=n) for n in (9, 10, 2)] + [make_file("other")])

    assert ["desk@10", "desk@10", "desk@2", "other@1"] == [
        sets.find(asked).key for asked in ("desk", "desk@10", "desk@2", "other")
    ]
    assert ["desk@2", "desk@9", "desk@10", "other@1"] == [one.key for one in sets]


@pytest.mark.parametrize("asked", ["none", "desk@3", "desk@", "desk@01", "@1", "", "Desk", "desk "])
def test_an_unknown_set_is_rejected(asked: str) -> None:
    """With the place, and with what there is; the ticket's own text is not repeated."""
    with pytest.raises(Rejected) as caught:
        load_question_sets([make_file()]).find(asked)

    assert ("unknown_question_set", "question_set", "no such set; this worker has desk@1") == (
        caught.value.code,
        caught.value.where,
        caught.value.message,
    )


def test_a_version_never_changes() -> None:
    """Other content under the same name and version is refused, beside it and after it."""
    changed = make_file(description="new")
    before = load_question_sets([make_file()])

    assert "other content in desk-1.json" in refusal(make_file(), ("b.json", changed[1]))
    assert "desk@1 had other content before" in refusal(changed, before=before)
    gone = load_question_sets([], before)
    assert "desk@1 had other content before" in refusal(changed, before=gone)
    assert 1 == len(load_question_sets([make_file(), ("copy.json", make_file()[1])], before))


def test_the_layout_of_a_file_does_not_matter() -> None:
    """YAML and JSON that say the same have the same hash; another word has another."""
    yaml = b"""
    # comments are for people
    version: 1
    name: desk
    questions:
      q: {type: noul, criteria: {true: yes, false: no}}
    """
    tree = {
        "name": "desk",
        "version": 1,
        "questions": {"q": {"type": "noul", "criteria": {"true": "yes", "false": "no"}}},
    }
    [one] = load_question_sets([("a.yaml", yaml)])
    [other] = load_question_sets([("a.json", json.dumps(tree).encode())])
    [third] = load_question_sets([("a.json", json.dumps({**tree, "owner": "x"}).encode())])

    assert one.sha256() == other.sha256() != third.sha256()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a b"}, "desk-1.json: name: string should match pattern"),
        ({"version": 0}, "desk-1.json: version: "),
        ({"version": "1"}, "desk-1.json: version: "),
        ({"questions": {}}, "desk-1.json: questions: must not be empty"),
        ({"questions": {"q": {"type": "x"}}}, "desk-1.json: questions.q: type must be one of"),
        ({"questions": {"q": {"type": "choice"}}}, "desk-1.json: questions.q.criteria: "),
        ({"owners": "x"}, "desk-1.json: "),
        ({"defaults": {"attributes": ["x"]}}, "defaults.attributes: there is no question x"),
        ({"defaults": {"orders": 0}}, "desk-1.json: defaults.orders: "),
        ({"examples": [{"state": "s", "answers": {"x": 1}}]}, "examples.0.answers: "),
    ],
)
def test_a_wrong_file_is_named_with_the_place(fields: dict[str, Any], message: str) -> None:
    """File, place, reason."""
    file = ("desk-1.json", make_file(**fields)[1])

    assert message in refusal(file)


def test_every_wrong_file_is_told_at_once() -> None:
    """One start shows all of them."""
    message = refusal(("a.yaml", b"["), make_file(version=0), ("c.json", b"{,}"))

    assert all(name in message for name in ("a.yaml", "desk-0.json", "c.json"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no: yes", {"no": "yes"}),
        ("true: true", {"true": True}),
        ("1: 2026-01-01", {"1": "2026-01-01"}),
        ("a: [007, 7, 1e3, ~, '7']", {"a": ["007", 7, 1000.0, None, "7"]}),
    ],
)
def test_yaml_means_what_it_looks_like(text: str, expected: Any) -> None:
    """Keys are text, only true and false are truth values, and dates are text."""
    assert expected == parse_file("a.yaml", text.encode())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "line 2 column 1: the key is repeated"),
        ("a: &x 1\nb: *x", "aliases are not allowed"),
        ("a: !!python/object:os.system x", "is not allowed"),
        ("a: .nan", "a number is not finite"),
        ('a: "\\ud800"', "lone surrogate"),
        ("? [a]\n: 1", "a key must be text"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: \x00", "U+0000"),
        (f"a: {'9' * 5000}", "a number cannot be read"),
    ],
)
def test_yaml_that_surprises_is_refused(text: str, message: str) -> None:
    """Repeated keys, aliases, tags, and what JSON cannot say."""
    with pytest.raises(UsageError, match=r"^a\.yaml: ") as caught:
        parse_file("a.yaml", text.encode())

    assert message in str(caught.value)
