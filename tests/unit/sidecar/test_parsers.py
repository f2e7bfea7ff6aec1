"""The parsers of all three formats, fed with whatever comes."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.sidecar.bench import CONTROL, make_decision, make_request
from worker.decision.strict_json import parse_json
from worker.errors import Rejected
from worker.sidecar.formats import SYSTEM_ONE, format_of
from worker.sidecar.refusal import refusal_of
from worker.sidecar.transform import MAX_LINES, split_lines

SECRET = "xyzzy"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)

WORDS = (
    "state", "questions", "question_set", "model", "metadata", "ticket_id", "type", "criteria",
    "instructions", "choice", "score", "noul", "true", "false", "decision", "decisions", "id",
    "question", "options", "description", CONTROL, "", "0",
)  # fmt: skip

texts = st.sampled_from(WORDS) | st.text(max_size=4)
near_requests = st.recursive(
    texts | st.none() | st.integers(-1, 300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """Return a good request of which one place holds something else."""
    tree = draw(
        st.sampled_from(
            [make_request(), {"decision": make_decision()}, {"decisions": [make_decision()] * 2}]
        )
    )
    tree = json.loads(json.dumps(tree))
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(keys))
        inner = node[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            node = inner
            continue
        node[key] = draw(near_requests)
        return tree


def read(body: bytes) -> None:
    """Read a body as the sidecar does: a ticket comes of it, or a refusal that can be worded."""
    wording = SYSTEM_ONE
    try:
        tree = parse_json(body)
        wording = format_of(tree, lambda text: CONTROL in text)
        ticket = wording.read(tree, "t").ticket
    except Rejected as fault:
        status, answer = wording.error(refusal_of(fault))
        assert 400 <= status < 500
        assert SECRET not in json.dumps(answer)
    else:
        # A set by that name is looked up later.
        assert ticket.questions or ticket.question_set is not None


@given(body=st.binary(max_size=200))
@example(body=b"\xef\xbb\xbf{}")
@example(body=b"[" * 100_000)
@example(body=b'{"a":' * 100_000)
@example(body=b"1" * 10_000)
def test_bytes(body: bytes) -> None:
    """Whatever comes, nothing but a refusal comes of it."""
    read(body)


@given(tree=json_values)
def test_json(tree: Any) -> None:
    """JSON of any shape, with numbers that JSON does not have."""
    read(json.dumps(tree).encode("utf-8", "surrogatepass"))


@settings(max_examples=300)
@given(tree=near_requests)
def test_the_formats_own_words(tree: Any) -> None:
    """The formats' words in places where they do not belong."""
    read(json.dumps(tree).encode("utf-8", "surrogatepass"))


@settings(max_examples=300)
@given(tree=spoilt())
def test_a_good_request_with_something_wrong_in_it(tree: Any) -> None:
    """One place at a time."""
    read(json.dumps(tree).encode("utf-8", "surrogatepass"))


@given(tree=st.sampled_from([make_request(), {"decision": make_decision()}]), data=st.data())
def test_what_a_customer_wrote_is_never_repeated(tree: Any, data: st.DataObject) -> None:
    """Wherever the request is spoilt, the refusal does not hold the text of the state."""
    tree = json.loads(json.dumps(tree))
    holder = tree.get("decision", tree)
    holder["state"] = {SECRET: [SECRET, data.draw(st.sampled_from([1, SECRET, float("nan")]))]}
    holder[data.draw(st.sampled_from(list(holder)))] = data.draw(
        st.sampled_from([None, SECRET, [SECRET], {"q": SECRET}, 3])
    )
    read(json.dumps(tree).encode())


@given(body=st.binary(max_size=100).map(lambda body: body.replace(b"a", b"\n")))
def test_lines(body: bytes) -> None:
    """As many as there are line breaks, and what they hold is all there was."""
    try:
        lines = split_lines(body)
    except Rejected:
        assert not body.strip()
        return
    assert body == b"\n".join(lines) + (b"\n" if body.endswith(b"\n") else b"")
    assert len(lines) <= MAX_LINES


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=20_000)
@given(tree=spoilt() | near_requests)
def test_at_length(tree: Any) -> None:
    """The same, many times over."""
    read(json.dumps(tree).encode("utf-8", "surrogatepass"))
