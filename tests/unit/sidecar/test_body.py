"""Bodies: their encodings, and what is too large, broken or late."""

import gzip
import json
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sidecar.bench import JSON, make_request, open_bench
from worker.errors import Rejected
from worker.sidecar.body import decoder_of
from worker.sidecar.refusal import Refused

LIMIT = 1000


def unsized_zstd(data: bytes) -> bytes:
    """Compress without saying how large the content is."""
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return compressor.compress(data) + compressor.flush()


ENCODERS = {
    "gzip": gzip.compress,
    "X-GZip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    " ZSTD ": unsized_zstd,
    "": bytes,
    "identity": bytes,
}


@pytest.mark.parametrize("encoding", list(ENCODERS))
@given(data=st.binary(max_size=LIMIT))
def test_what_was_encoded_comes_back(encoding: str, data: bytes) -> None:
    """Every encoding that is taken is undone."""
    assert data == decoder_of(encoding)(ENCODERS[encoding](data), LIMIT)


@pytest.mark.parametrize("encoding", ["gzip", "zstd", " ZSTD "])
def test_a_small_body_that_becomes_large(encoding: str) -> None:
    """Decoding stops at the limit, which the message names."""
    bomb = ENCODERS[encoding](bytes(50_000_000))
    with pytest.raises(Rejected) as caught:
        decoder_of(encoding)(bomb, LIMIT)

    assert ("too_large", "the body has more than 1000 bytes") == (
        caught.value.code,
        caught.value.message,
    )


@pytest.mark.parametrize("encoding", ["gzip", "zstd", " ZSTD "])
@pytest.mark.parametrize(
    "broken", [lambda b: b[:-3], lambda b: b + b"x", lambda b: b"x" + b, lambda b: b""]
)
def test_a_broken_body(encoding: str, broken: "object") -> None:
    """Cut off, continued, or something else: refused, never half of it taken."""
    body = broken(ENCODERS[encoding](b"hello" * 20))
    with pytest.raises(Rejected) as caught:
        decoder_of(encoding)(body, LIMIT)

    assert "invalid_body" == caught.value.code


def test_a_window_larger_than_http_allows() -> None:
    """How much memory decoding takes is not the sender's choice."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(b"hello") + compressor.flush()
    with pytest.raises(Rejected):
        decoder_of("zstd")(body, LIMIT)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "chunked"])
def test_encodings_that_are_not_taken(encoding: str) -> None:
    """415, with those that are."""
    with pytest.raises(Refused) as caught:
        decoder_of(encoding)

    assert (415, "gzip, zstd") == (
        caught.value.refusal.status,
        caught.value.refusal.headers["Accept-Encoding"],
    )


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_encoded_requests_are_answered(encoding: str) -> None:
    """As the official clients send them."""
    body = ENCODERS[encoding](json.dumps(make_request()).encode())
    async with open_bench() as bench:
        answered = await bench.post(body, **{"Content-Encoding": encoding})

    assert 200 == answered.status


async def test_a_body_over_the_limit() -> None:
    """413 names the limit, whether the length is announced, hidden or compressed away."""
    large = json.dumps(make_request(state="x" * 30_000)).encode()

    async def pieces() -> "object":
        yield large

    async with open_bench(max_body_bytes=20_000) as bench:
        announced = await bench.post(large)
        hidden = await bench.ask("POST", "/invocations", data=pieces(), headers=JSON)
        compressed = await bench.post(gzip.compress(large), **{"Content-Encoding": "gzip"})

    for answered in (announced, hidden, compressed):
        assert 413 == answered.status
        assert "20000 bytes" in answered.body["detail"]["message"]


async def test_a_body_that_cannot_be_decoded() -> None:
    """400: what is wrong is how it was sent."""
    async with open_bench() as bench:
        answered = await bench.post(zlib.compress(b"{}"), **{"Content-Encoding": "gzip"})

    assert (400, "api_usage_error") == (answered.status, answered.body["detail"]["error_type"])
