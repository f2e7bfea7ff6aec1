"""What an object in S3 says: unpack and decode its bytes within a bound. Pure."""

import zlib

from worker.decision.question import Text
from worker.decision.strict_json import parse_json
from worker.errors import Rejected
from worker.ports import Document

CODE = "invalid_document"

_GZIP = b"\x1f\x8b"  # no UTF-8 text begins so
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_MARK = "\ufeff"


def document_text(document: Document, *, max_bytes: int, where: str) -> str:
    """Return the document's text: unpacked when it is gzip'd, without a byte order mark.

    Args:
        document: as read.
        max_bytes: the most it may have once unpacked.
        where: the ticket's field that names it.

    Raises:
        Rejected: it is too large, damaged, or not UTF-8.
    """
    content = document.content
    if content.startswith(_GZIP):
        content = _unpack(content, max_bytes, where)
    if len(content) > max_bytes:
        raise too_large(max_bytes, where)
    try:
        return content.decode("utf-8").removeprefix(_MARK)
    except UnicodeDecodeError as error:
        message = f"the document is not UTF-8 at byte {error.start}"
        raise Rejected(CODE, message, where) from None


def document_state(document: Document, *, max_bytes: int, where: str) -> Text:
    """Return the document as a state.

    It is structured when its content type (``application/json`` or one that ends in ``+json``) or
    its key (``.json``, ``.json.gz``) says that it is JSON, and text otherwise, whatever it holds.

    Raises:
        Rejected: it cannot be read, or it is JSON but no text, object or array.
    """
    text = document_text(document, max_bytes=max_bytes, where=where)
    if not document.is_json:
        return text
    try:
        tree = parse_json(text, code=CODE)
    except Rejected as fault:
        # Without the place: its names are the customer's.
        raise Rejected(CODE, f"the document: {fault.message}", where) from None
    if not isinstance(tree, str | dict | list):
        raise Rejected(CODE, "the document must be text, an object or an array", where)
    return tree


def too_large(max_bytes: int, where: str) -> Rejected:
    """Return the rejection of a document with more than *max_bytes* bytes."""
    return Rejected("too_large", f"the document has more than {max_bytes} bytes", where)


def _unpack(packed: bytes, max_bytes: int, where: str) -> bytes:
    """Unpack one gzip member after the other, and never more than *max_bytes*."""
    unpacked = bytearray()
    try:
        while packed:
            member = zlib.decompressobj(_GZIP_WINDOW)
            unpacked += member.decompress(packed, max_bytes + 1 - len(unpacked))
            if len(unpacked) > max_bytes:
                raise too_large(max_bytes, where)
            if not member.eof:
                raise Rejected(CODE, "the gzip'd document ends early", where)
            packed = member.unused_data.lstrip(b"\0")  # what tape archivers append
    except zlib.error:
        raise Rejected(CODE, "the gzip'd document is damaged", where) from None
    return bytes(unpacked)
