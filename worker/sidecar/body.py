"""Receive a request's body within a time and a size, and undo its content encoding within both."""

import asyncio
import zlib
from collections.abc import Callable

import zstandard
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from worker.errors import Rejected
from worker.sidecar.refusal import Refused

# What HTTP allows a zstd sender to use; a larger window would be the sender's choice of our memory.
_MAX_WINDOW_BYTES = 8 * 2**20
_UNDECODABLE = "the body cannot be decoded"


async def receive_body(request: web.Request, *, max_bytes: int, seconds: float) -> bytes:
    """Receive the body as it was sent.

    Args:
        request: whose body.
        max_bytes: the most that is taken, encoded.
        seconds: the longest it may take to arrive.

    Raises:
        Rejected: it is too large, or no body at all.
        Refused: it did not arrive in time.
    """
    if (request.content_length or 0) > max_bytes:
        raise too_large(max_bytes)
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # else an error could no longer be answered
    received = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.content.iter_any():
                received += piece
                if len(received) > max_bytes:
                    raise too_large(max_bytes)
    except TimeoutError:
        message = f"the body did not arrive within {seconds:g} seconds"
        raise Refused(408, "request_timeout", message) from None
    except (HttpProcessingError, web.RequestPayloadError):
        raise Rejected("invalid_body", _UNDECODABLE) from None
    return bytes(received)


def decoder_of(encoding: str) -> Callable[[bytes, int], bytes]:
    """Return what undoes a ``Content-Encoding``, given the body and the most bytes to return.

    Raises:
        Refused: it is not one of gzip, zstd and identity.
    """
    decoder = _DECODERS.get(encoding.strip().lower())
    if decoder is None:
        message = "Content-Encoding must be gzip, zstd or identity"
        headers = {"Accept-Encoding": "gzip, zstd"}
        raise Refused(415, "unsupported_content_encoding", message, headers)
    return decoder


def too_large(max_bytes: int) -> Rejected:
    """Return the rejection of a body over the limit."""
    return Rejected("too_large", f"the body has more than {max_bytes} bytes")


def _identity(body: bytes, _: int) -> bytes:
    return body


def _gunzip(body: bytes, max_bytes: int) -> bytes:
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        decoded = decoder.decompress(body, max_bytes + 1)
    except zlib.error:
        raise Rejected("invalid_body", _UNDECODABLE) from None
    if len(decoded) > max_bytes:
        raise too_large(max_bytes)
    if not decoder.eof or decoder.unused_data:
        raise Rejected("invalid_body", _UNDECODABLE)
    return decoded


def _unzstd(body: bytes, max_bytes: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(body) as reader:
            if len(reader.read(max_bytes + 1)) > max_bytes:
                raise too_large(max_bytes)
        # Once more, now that the size is known to be harmless: only this tells a cut-off body.
        decoder = decompressor.decompressobj()
        decoded = decoder.decompress(body)
    except zstandard.ZstdError:
        raise Rejected("invalid_body", _UNDECODABLE) from None
    if not decoder.eof or decoder.unused_data:
        raise Rejected("invalid_body", _UNDECODABLE)
    return decoded


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "": _identity,
    "identity": _identity,
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "zstd": _unzstd,
}
