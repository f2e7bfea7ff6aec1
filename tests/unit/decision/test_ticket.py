"""Tickets: a System One body is one, and what is not is refused by place, without its text."""

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import QUESTIONS, make_body, make_tree
from worker.decision.question import Choice, Noul, Score
from worker.decision.ticket import parse_ticket, validate_ticket
from worker.errors import Rejected

ONE_OF_STATE = "needs exactly one of state and state_uri"
ONE_OF_QUESTIONS = "needs exactly one of questions and question_set"
WRONG_TYPE = "type must be one of choice, score, noul"


def refusal(body: str | bytes, **options: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        parse_ticket(body, **options)
    return caught.value


def test_a_system_one_body_is_a_ticket() -> None:
    """A request as an existing client sends it is taken as it is, its questions in order."""
    body = {"model": "jev-latest", "state": {"mail": "Hello"}, "questions": QUESTIONS}
    ticket = parse_ticket(json.dumps(body), default_id="m-7")

    assert ("m-7", "jev-latest", {"mail": "Hello"}) == (
        ticket.ticket_id,
        ticket.model,
        ticket.state,
    )
    assert {"desk": Choice, "heat": Score, "refund": Noul} == {
        key: type(question) for key, question in (ticket.questions or {}).items()
    }
    assert list(QUESTIONS) == list(ticket.questions or {})


def test_every_field_is_read() -> None:
    """The worker's own fields are read beside System One's."""
    body = make_body(
        ticket_id="t-9",
        state=...,
        state_uri="s3://bucket/key",
        questions=...,
        question_set="triage@2",
        metadata={"tenant": "a"},
    )
    ticket = parse_ticket(body.encode(), default_id="unused")

    assert ("t-9", "s3://bucket/key", "triage@2", {"tenant": "a"}) == (
        ticket.ticket_id,
        ticket.state_uri,
        ticket.question_set,
        ticket.metadata,
    )


@pytest.mark.parametrize("ticket_id", [..., ""])
def test_a_ticket_without_an_id_gets_the_default(ticket_id: Any) -> None:
    """A missing or empty ticket id is the message's."""
    assert "m-1" == parse_ticket(make_body(ticket_id=ticket_id), default_id="m-1").ticket_id


@pytest.mark.parametrize("state", ["", {}, [], "text", {"a": [1, None]}, ["a", 1.5]])
def test_a_state_is_text_or_structured(state: Any) -> None:
    """Text, objects and arrays are states, empty ones too, and come through unchanged."""
    assert state == parse_ticket(make_body(state=state)).state


@pytest.mark.parametrize("field", ["assets", "images", "files", "videos"])
def test_a_ticket_about_more_than_text_is_rejected(field: str) -> None:
    """A picture is never passed over in silence: the answer would not be about it."""
    fault = refusal(json.dumps({**make_tree(), field: ["AA=="]}))
    assert (field, "this model reads text only") == (fault.where, fault.message)


def test_unknown_fields_are_ignored() -> None:
    """A client may send more than we know."""
    assert parse_ticket(make_body()) == parse_ticket(make_body(images=[], keep_alive="5m"))


def test_the_limits_are_inclusive() -> None:
    """An id of 128 characters, 16 metadata entries and a body of just the limit are fine."""
    body = make_body(ticket_id="x" * 128, metadata={str(n): "" for n in range(16)})

    assert "x" * 128 == parse_ticket(body, max_bytes=len(body)).ticket_id


QUESTION_REFUSALS: list[tuple[Any, str, str]] = [
    (5, "", "input should be a valid dictionary or object to extract fields from"),
    ({}, "", WRONG_TYPE),
    ({"type": "boolean"}, "", WRONG_TYPE),
    ({"type": ["noul"]}, "", WRONG_TYPE),
    ({"type": "noul"}, "", "needs instructions or a described outcome"),
    (
        {"type": "noul", "instructions": "?", "x": 1},
        "",
        "has a field that questions of this type do not have",
    ),
    ({"type": "choice"}, "criteria", "field required"),
    (
        {"type": "choice", "criteria": {}},
        "criteria",
        "must not be empty",
    ),
    (
        {"type": "choice", "criteria": {str(n): None for n in range(256)}},
        "criteria",
        "has too many entries, at most 255 are allowed",
    ),
    ({"type": "choice", "criteria": {"": None}}, "", "an option has an empty name"),
    (
        {"type": "score", "criteria": ["x"] * 11},
        "criteria",
        "has too many entries, at most 10 are allowed",
    ),
    ({"type": "score", "criteria": {"0": "x"}}, "criteria", "input should be a valid list"),
]


@pytest.mark.parametrize("question_id", ["q", "choice", "noul", "a.b", "ü 😀"])
@pytest.mark.parametrize(("question", "where", "message"), QUESTION_REFUSALS)
def test_a_wrong_question_is_refused_by_its_place(
    question: Any, where: str, message: str, question_id: str
) -> None:
    """The place is that of the ticket, whatever the question is called."""
    error = refusal(make_body(questions={**QUESTIONS, question_id: question}))
    place = ".".join(filter(None, ["questions", question_id, where]))

    assert ("invalid_ticket", place, message) == (error.code, error.where, error.message)
    assert f"{place}: {message}" == str(error)


@pytest.mark.parametrize(
    ("question", "where"),
    [
        ({"type": "noul", "instructions": 5}, "questions.q.instructions"),
        ({"type": "choice", "criteria": {"a": 5}}, "questions.q.criteria.a"),
        ({"type": "score", "criteria": ["low", None]}, "questions.q.criteria.1"),
        ({"type": "noul", "criteria": {"true": 5}}, "questions.q.criteria.true"),
        (
            {"type": "noul", "instructions": "?", "criteria": {"maybe": "x"}},
            "questions.q.criteria.maybe",
        ),
    ],
)
def test_a_place_is_one_that_the_ticket_has(question: Any, where: str) -> None:
    """A client can find the named place in what it sent."""
    assert where == refusal(make_body(questions={"q": question})).where


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"state": ...}, "", ONE_OF_STATE),
        ({"state": None}, "", ONE_OF_STATE),
        ({"state_uri": "s3://b/k"}, "", ONE_OF_STATE),
        ({"questions": ...}, "", ONE_OF_QUESTIONS),
        ({"question_set": "triage"}, "", ONE_OF_QUESTIONS),
        ({"state": 5}, "state", "must be text, an object or an array"),
        ({"state": True}, "state", "must be text, an object or an array"),
        ({"questions": []}, "questions", "input should be a valid dictionary"),
        (
            {"questions": {}},
            "questions",
            "must not be empty",
        ),
        ({"questions": {"": QUESTIONS["desk"]}}, "", "a question has an empty id"),
        ({"ticket_id": 5}, "ticket_id", "input should be a valid string"),
        ({"ticket_id": None}, "ticket_id", "input should be a valid string"),
        ({"ticket_id": "x" * 129}, "ticket_id", "string should have at most 128 characters"),
        ({"model": 5}, "model", "input should be a valid string"),
        ({"state": ..., "state_uri": 5}, "state_uri", "input should be a valid string"),
        ({"questions": ..., "question_set": {}}, "question_set", "input should be a valid string"),
        ({"metadata": None}, "metadata", "input should be a valid dictionary"),
        ({"metadata": {"secret": 5}}, "metadata", "input should be a valid string"),
        (
            {"metadata": {str(n): "" for n in range(17)}},
            "metadata",
            "has too many entries, at most 16 are allowed",
        ),
    ],
)
def test_a_wrong_field_is_refused_by_its_place(fields: Any, where: str, message: str) -> None:
    """Each refusal names its place and says what would be right."""
    error = refusal(make_body(**fields))

    assert ("invalid_ticket", where, message) == (error.code, error.where, error.message)


@pytest.mark.parametrize("body", ["[]", '"text"', "null", "1"])
def test_a_body_is_an_object(body: str) -> None:
    """JSON that is not an object is no ticket."""
    assert "the body must be a JSON object" == refusal(body).message


def test_strict_json_is_asked_for() -> None:
    """A ticket goes through the strict parser: its place and code are the ticket's."""
    error = refusal('{"state": {"k": 1, "k": 2}}')

    assert ("invalid_ticket", "state") == (error.code, error.where)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_large_body_is_refused_unread(as_bytes: bool) -> None:
    """The size is counted in bytes, before anything is parsed."""
    text = "ü" * 600
    body = text.encode() if as_bytes else text
    error = refusal(body, max_bytes=1024)

    assert "too_large" == error.code
    assert "the body has 1200 bytes, at most 1024 are taken" == error.message


# Not ASCII, so that no word of our own messages can be drawn.
markers = st.text(
    st.characters(codec="utf-8", categories=["L"], min_codepoint=0x370), min_size=4, max_size=20
)

Tree = dict[str, Any]


def _all_marked(marker: str) -> Tree:
    """Return a valid ticket in which every text, and every key of the customer's, is *marker*."""
    return make_tree(
        ticket_id=marker,
        state={marker: [marker, {marker: marker}]},
        model=marker,
        metadata={marker: marker},
        unknown=marker,
        questions={
            "choice": {
                "type": "choice",
                "instructions": marker,
                "criteria": {"a": marker, "b": {"text": marker}},
            },
            "score": {"type": "score", "instructions": [marker], "criteria": [marker, marker]},
            "noul": {"type": "noul", "instructions": marker, "criteria": {"true": marker}},
        },
    )


def _question(name: str, **fields: Any) -> Callable[[Tree, str], None]:
    def spoil(tree: Tree, marker: str) -> None:
        values = {key: marker if value == "MARKER" else value for key, value in fields.items()}
        tree["questions"][name] |= values

    return spoil


def _field(**fields: Any) -> Callable[[Tree, str], None]:
    def spoil(tree: Tree, marker: str) -> None:
        for key, value in fields.items():
            tree[key] = marker if value == "MARKER" else value

    return spoil


SPOILERS: list[Callable[[Tree, str], None]] = [
    _field(state=5),
    _field(state_uri="MARKER"),
    _field(question_set="MARKER"),
    _field(questions="MARKER"),
    _field(metadata="MARKER"),
    _field(questions={"q": "MARKER"}),
    lambda tree, marker: tree.update(questions=[marker]),
    lambda tree, marker: tree.update(ticket_id=marker * 40),
    lambda tree, marker: tree.update(ticket_id=[marker]),
    lambda tree, marker: tree.update(model={marker: marker}),
    lambda tree, marker: tree.update(metadata={marker: [marker]}),
    lambda tree, marker: tree.update(metadata={f"{marker}{n}": marker for n in range(17)}),
    lambda tree, marker: tree["questions"].update({"": {"type": "noul", "instructions": marker}}),
    _question("choice", type="MARKER"),
    lambda tree, marker: tree["questions"]["noul"].update(type=[marker]),
    lambda tree, marker: tree["questions"]["noul"].update(type={"x": marker}),
    _question("choice", criteria="MARKER"),
    _question("choice", extra="MARKER"),
    _question("score", criteria="MARKER"),
    _question("score", instructions=5),
    lambda tree, marker: tree["questions"]["score"].update(criteria=[marker] * 11),
    lambda tree, marker: tree["questions"]["score"].update(criteria=[marker, None]),
    lambda tree, marker: tree["questions"]["choice"]["criteria"].update({"": marker}),
    lambda tree, marker: tree["questions"]["choice"]["criteria"].update(c=5),
    lambda tree, marker: tree["questions"]["choice"].update(
        criteria={f"{marker}{n}": marker for n in range(256)}
    ),
    _question("noul", criteria="MARKER"),
    _question("noul", criteria={"maybe": "MARKER"}),
    lambda tree, marker: tree["state"].update({marker + "1": float("nan")}),
    lambda tree, marker: tree["state"].update({marker + "1": marker + "\ud800"}),
    lambda tree, marker: tree["metadata"].update({marker + "\ud800": marker}),
]


@pytest.mark.parametrize("spoil", SPOILERS)
@settings(max_examples=15)
@given(marker=markers)
def test_a_refusal_never_repeats_the_ticket(
    spoil: Callable[[Tree, str], None], marker: str
) -> None:
    """Whatever is wrong, no text of the ticket is in the error, nor in its traceback."""
    tree = _all_marked(marker)
    spoil(tree, marker)
    error = refusal(json.dumps(tree))

    assert marker not in str(error)
    assert marker not in "".join(traceback.format_exception(error))


@given(markers, st.data())
def test_a_torn_ticket_is_not_repeated(marker: str, data: st.DataObject) -> None:
    """A body that is cut off anywhere is refused without its text."""
    body = json.dumps(_all_marked(marker), ensure_ascii=False)
    torn = body[: data.draw(st.integers(0, len(body) - 1))]

    assert marker not in "".join(traceback.format_exception(refusal(torn)))


def test_a_tree_is_validated_like_a_body() -> None:
    """What is parsed already is held to the same rules."""
    assert parse_ticket(make_body()) == validate_ticket(make_tree())
    with pytest.raises(Rejected, match=ONE_OF_STATE):
        validate_ticket(make_tree(state=...))
