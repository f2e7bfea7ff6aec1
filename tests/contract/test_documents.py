"""Documents: our fake and the S3 adapter, on moto over a socket, keep the same promises."""

import contextlib
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aioboto3
import pytest
import structlog
from botocore.exceptions import ClientError, EndpointConnectionError
from prometheus_client import REGISTRY

from tests.fakes import FakeDocuments
from worker.errors import AwsUnavailable, Rejected
from worker.ports import Document, Documents
from worker.queue.aws import Connection
from worker.queue.s3 import S3Documents, open_documents

BUCKET = "papers"
SECRET = "jane-doe"


def connection(endpoint_url: str) -> Connection:
    session = aioboto3.Session("testing", "testing", region_name="us-east-1")
    return Connection(session, endpoint_url)


@contextlib.asynccontextmanager
async def on_moto(endpoint_url: str) -> AsyncIterator[S3Documents]:
    there = connection(endpoint_url)
    async with open_documents(there, connections=4) as documents:
        await documents._client.create_bucket(Bucket=BUCKET)
        yield documents


@pytest.fixture(params=["fake", "moto"])
async def documents(request: pytest.FixtureRequest) -> AsyncIterator[Documents]:
    if request.param == "fake":
        yield FakeDocuments()
        return
    async with on_moto(request.getfixturevalue("emulator_url")) as found:
        yield found


async def read(documents: Documents, key: str, *, max_bytes: int = 1000) -> Document:
    return await documents.read(BUCKET, key, max_bytes=max_bytes, where="state_uri")


@pytest.mark.parametrize(
    "content", [b"", b"plain", "für".encode(), gzip.compress(b"packed", mtime=0)]
)
async def test_what_is_written_is_read_back(documents: Documents, content: bytes) -> None:
    """The bytes are those that were written, gzip'd ones too, also after a second writing."""
    await documents.write(BUCKET, "a b/ü.txt", b"first", "text/plain")
    await documents.write(BUCKET, "a b/ü.txt", content, "text/plain")

    assert Document(content, is_json=False) == await read(documents, "a b/ü.txt")


@pytest.mark.parametrize(
    ("key", "content_type", "is_json"),
    [
        ("k", "text/plain", False),
        ("k", "application/json", True),
        ("k", "application/json; charset=utf-8", True),
        ("k", "application/vnd.x+json", True),
        ("k.json", "binary/octet-stream", True),
        ("k.json.gz", "application/gzip", True),
        ("k.jsonl", "text/plain", False),
    ],
)
async def test_type_or_name_says_what_is_json(
    documents: Documents, key: str, content_type: str, is_json: bool
) -> None:
    """JSON is what its content type or its key calls so, not what looks like it."""
    await documents.write(BUCKET, key, b"{}", content_type)

    assert is_json == (await read(documents, key)).is_json


@pytest.mark.parametrize("bucket", [BUCKET, "no-such-bucket", "no bucket/at all"])
async def test_what_is_gone_is_rejected(documents: Documents, bucket: str) -> None:
    """No object, no bucket, no possible bucket: no later attempt will find it."""
    with pytest.raises(Rejected) as caught:
        await documents.read(bucket, SECRET, max_bytes=10, where="state_uri")

    assert ("document_gone", "state_uri") == (caught.value.code, caught.value.where)
    assert SECRET not in str(caught.value)


async def test_a_large_object_is_refused(documents: Documents) -> None:
    """The limit is the last size that is taken."""
    await documents.write(BUCKET, "large", b"x" * 1001, "text/plain")

    assert 1001 == len((await read(documents, "large", max_bytes=1001)).content)
    with pytest.raises(Rejected) as caught:
        await read(documents, "large", max_bytes=1000)
    assert "too_large" == caught.value.code


class Refusing:
    """What S3 answers when it does not answer with an object."""

    def __init__(self, code: str) -> None:
        self._code = code

    async def __call__(self, **_: Any) -> Any:
        if self._code == "EndpointConnectionError":
            raise EndpointConnectionError(endpoint_url=f"https://{BUCKET}.s3/{SECRET}")
        error = {"Code": self._code, "Message": f"about {SECRET}"}
        raise ClientError({"Error": error}, "GetObject")

    get_object = put_object = list_objects_v2 = __call__


def counted(result: str) -> float:
    return REGISTRY.get_sample_value("decision_documents_total", {"result": result}) or 0.0


@pytest.mark.parametrize(
    ("code", "result", "level"),
    [
        ("AccessDenied", "denied", "error"),
        ("KMS.AccessDeniedException", "denied", "error"),
        ("SlowDown", "unavailable", "warning"),
        ("InternalError", "unavailable", "warning"),
        ("InvalidObjectState", "unavailable", "warning"),
        ("EndpointConnectionError", "unavailable", "warning"),
    ],
)
@pytest.mark.parametrize("doing", ["read", "write", "list"])
async def test_what_may_be_mended_is_tried_again_and_said_loudly(
    code: str, result: str, level: str, doing: str
) -> None:
    """Denied, throttled, not reachable: retryable; log and message name the bucket, not the key."""
    documents = S3Documents(Refusing(code))  # type: ignore[arg-type]
    before = counted(result)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "read": lambda: documents.read(BUCKET, SECRET, max_bytes=10, where="state_uri"),
        "write": lambda: documents.write(BUCKET, SECRET, b"", "text/plain"),
        "list": lambda: documents.names(BUCKET, SECRET),
    }
    with structlog.testing.capture_logs() as logs, pytest.raises(AwsUnavailable) as caught:
        await calls[doing]()

    event = "document_denied" if level == "error" else "document_failed"
    expected = {"event": event, "doing": doing, "bucket": BUCKET, "code": code}
    assert [expected | {"log_level": level}] == logs
    assert before + 1 == counted(result)
    assert SECRET not in str(caught.value)


class Lying:
    """An S3 that announces fewer bytes than it sends."""

    async def get_object(self, **_: Any) -> Any:
        return {"ContentLength": 1, "Body": self}

    async def __aenter__(self) -> "Lying":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True

    async def read(self, amount: int) -> bytes:
        return b"x" * amount


class Announcing(Lying):
    """An S3 that announces many bytes."""

    async def get_object(self, **_: Any) -> Any:
        return {"ContentLength": 100_001, "Body": self}

    async def read(self, amount: int) -> bytes:
        raise AssertionError("nothing of it is to be read")


async def test_an_announced_size_is_enough_to_refuse() -> None:
    """Nothing of a large object is downloaded; its body is closed."""
    large = Announcing()
    documents = S3Documents(large)  # type: ignore[arg-type]
    with pytest.raises(Rejected) as caught:
        await documents.read(BUCKET, "k", max_bytes=100_000, where="")

    assert "too_large" == caught.value.code
    assert large.closed


async def test_the_read_itself_is_bounded() -> None:
    """A body without end is given up at the limit, whatever length was announced; it is closed."""
    endless = Lying()
    documents = S3Documents(endless)  # type: ignore[arg-type]
    with pytest.raises(Rejected) as caught:
        await documents.read(BUCKET, "k", max_bytes=100_000, where="")

    assert "too_large" == caught.value.code
    assert endless.closed
