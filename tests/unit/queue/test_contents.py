"""What objects say: packed or not, text or JSON, never more than the bound."""

import gzip
import json
from typing import Any

import pytest

from worker.errors import Rejected
from worker.ports import Document
from worker.queue.contents import document_state, document_text

LIMIT = 1000


def text(content: bytes) -> str:
    return document_text(Document(content), max_bytes=LIMIT, where="state_uri")


def state(content: bytes, *, is_json: bool = True) -> Any:
    return document_state(Document(content, is_json), max_bytes=LIMIT, where="state_uri")


def refusal(content: bytes, *, is_json: bool = True) -> Rejected:
    with pytest.raises(Rejected) as caught:
        state(content, is_json=is_json)
    assert "state_uri" == caught.value.where
    return caught.value


@pytest.mark.parametrize("words", ["", "plain", "für \U0001f600", "x" * LIMIT])
def test_text_is_read_packed_or_not(words: str) -> None:
    """gzip is told by its first bytes, since neither names nor types can be relied on."""
    content = words.encode()
    half = len(content) // 2
    members = gzip.compress(content[:half], mtime=0) + gzip.compress(content[half:], mtime=0)

    assert [words] * 4 == [
        text(content),
        text(gzip.compress(content, mtime=0)),
        text(members),
        text(gzip.compress(content, mtime=0) + b"\0\0"),
    ]


def test_a_byte_order_mark_is_no_text() -> None:
    """What editors put in front is not part of the state, nor in the way of JSON."""
    assert ("x", {"a": 1}) == (text(b"\xef\xbb\xbfx"), state(b'\xef\xbb\xbf{"a": 1}'))


def test_unpacking_is_bounded() -> None:
    """A megabyte of zeros in a kilobyte is refused, and so is one spread over many members."""
    one = gzip.compress(b"x" * (LIMIT + 1), mtime=0)
    many = gzip.compress(b"x" * 101, mtime=0) * 10

    assert len(one) < LIMIT
    assert ("too_large", "too_large", "too_large") == (
        refusal(one).code,
        refusal(many).code,
        refusal(b"x" * (LIMIT + 1)).code,
    )


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        "ü".encode("latin-1"),
        b"\xed\xa0\x80",  # a surrogate
        gzip.compress(b"\xff", mtime=0),
        gzip.compress(b"text", mtime=0)[:-4],
        gzip.compress(b"text", mtime=0) + b"text",
        b"\x1f\x8btext",
    ],
)
@pytest.mark.parametrize("is_json", [True, False])
def test_what_is_no_text_is_rejected(content: bytes, is_json: bool) -> None:
    """Nothing is repaired or replaced in silence."""
    assert "invalid_document" == refusal(content, is_json=is_json).code


@pytest.mark.parametrize("tree", [{"b": 1, "a": [None, 2.5]}, [], "text"])
def test_json_is_structured(tree: Any) -> None:
    """A document that is called JSON becomes a structured state, fields in their order."""
    content = json.dumps(tree).encode()

    assert json.dumps(tree) == json.dumps(state(content))
    assert json.dumps(tree) == state(content, is_json=False)


@pytest.mark.parametrize(
    "content", [b"1", b"null", b"true", b"", b"{", b'{"Jane": NaN}', b'{"Jane": 1, "Jane": 2}']
)
def test_other_json_is_rejected(content: bytes) -> None:
    """As strictly as a ticket, and without the names in it."""
    fault = refusal(content)

    assert "invalid_document" == fault.code
    assert "Jane" not in str(fault)
