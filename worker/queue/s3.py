"""Documents on Amazon S3."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import ClientError as HttpError
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from worker import metrics
from worker.errors import AwsUnavailable, Rejected
from worker.ports import Document
from worker.queue.aws import Connection, aws_errors, call_config
from worker.queue.contents import too_large

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client

_GONE = frozenset({"404", "NoSuchBucket", "NoSuchKey", "NoSuchVersion"})
_DENIED = frozenset(
    {"403", "AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
)
_NO_SUCH_NAME = frozenset({"InvalidBucketName", "KeyTooLongError"})
_JSON_NAMES = (".json", ".json.gz")
_READ_BYTES = 1 << 16

_log = structlog.get_logger()


class S3Documents:
    """All buckets that the worker's role may use."""

    def __init__(self, client: "S3Client") -> None:
        self._client = client

    async def read(self, bucket: str, key: str, *, max_bytes: int, where: str) -> Document:
        """Read one object; see :class:`worker.ports.Documents`."""
        with _s3_errors("read", bucket, where):
            answer = await self._client.get_object(Bucket=bucket, Key=key)
            body = answer["Body"]
            async with body:
                if int(answer.get("ContentLength", 0)) > max_bytes:
                    metrics.DOCUMENTS.labels("too_large").inc()
                    raise too_large(max_bytes, where)
                content = await _read(body, max_bytes, where)
        metrics.DOCUMENTS.labels("read").inc()
        kind = answer.get("ContentType", "").partition(";")[0].strip().lower()
        is_json = kind == "application/json" or kind.endswith("+json")
        return Document(content, is_json or key.lower().endswith(_JSON_NAMES))

    async def names(self, bucket: str, folder: str) -> list[str]:
        """Return the names of the objects in a folder, without those in folders below it.

        Args:
            bucket: the bucket's name.
            folder: what their keys begin with, up to and with the last slash; or nothing.

        Raises:
            Rejected: there is no such bucket.
            AwsUnavailable: it cannot be listed now: not allowed, throttled, not reachable.
        """
        found: list[str] = []
        asked: dict[str, Any] = {"Bucket": bucket, "Prefix": folder, "Delimiter": "/"}
        while True:
            with _s3_errors("list", bucket, ""):
                page = await self._client.list_objects_v2(**asked)
            found += [one["Key"].removeprefix(folder) for one in page.get("Contents", [])]
            if not page.get("IsTruncated"):
                return [name for name in found if name]
            asked["ContinuationToken"] = page["NextContinuationToken"]

    async def write(self, bucket: str, key: str, content: bytes, content_type: str) -> None:
        """Write one object; see :class:`worker.ports.Documents`."""
        with _s3_errors("write", bucket, ""):
            await self._client.put_object(
                Bucket=bucket, Key=key, Body=content, ContentType=content_type
            )
        metrics.DOCUMENTS.labels("written").inc()


@asynccontextmanager
async def open_documents(connection: Connection, *, connections: int) -> AsyncIterator[S3Documents]:
    """Open the client; no bucket is looked at.

    Args:
        connection: how AWS is reached.
        connections: the most calls at once.

    Raises:
        AwsUnusable: no region, or no client can be made.
    """
    connection.check_region()
    async with AsyncExitStack() as stack:
        with aws_errors("open S3", starting=True):
            client = await stack.enter_async_context(connection.s3(call_config(connections)))
        yield S3Documents(client)


async def _read(body: Any, max_bytes: int, where: str) -> bytes:
    """Read to the end, whatever length was announced, and never more than *max_bytes*."""
    content = bytearray()
    while chunk := await body.read(_READ_BYTES):
        content += chunk
        if len(content) > max_bytes:
            metrics.DOCUMENTS.labels("too_large").inc()
            raise too_large(max_bytes, where)
    return bytes(content)


@contextmanager
def _s3_errors(doing: str, bucket: str, where: str) -> Iterator[None]:
    """Tell S3's errors apart; messages name the bucket only, since keys are customers' words.

    Raises:
        Rejected: no object is there, nor will there be.
        AwsUnavailable: not allowed, throttled or not reachable; said loudly, since whoever runs
            the worker may have to mend it.
    """
    try:
        yield
    except ClientError as error:
        fault: Any = error.response.get("Error", {})
        code = str(fault.get("Code", "unknown"))
        if doing != "write" and code in _GONE | _NO_SUCH_NAME:
            raise _gone(where) from None
        raise _unavailable(doing, bucket, code) from None
    except (BotoCoreError, HttpError, OSError) as error:
        if doing != "write" and isinstance(error, ParamValidationError):
            raise _gone(where) from None  # no bucket can have such a name
        # Not its message, which may be a URL.
        raise _unavailable(doing, bucket, type(error).__name__) from None


def _gone(where: str) -> Rejected:
    metrics.DOCUMENTS.labels("gone").inc()
    return Rejected("document_gone", "S3 has no such object", where)


def _unavailable(doing: str, bucket: str, code: str) -> AwsUnavailable:
    denied = code in _DENIED or "AccessDenied" in code
    metrics.DOCUMENTS.labels("denied" if denied else "unavailable").inc()
    if denied:
        _log.error("document_denied", doing=doing, bucket=bucket, code=code)
    else:
        _log.warning("document_failed", doing=doing, bucket=bucket, code=code)
    what = "documents" if doing == "list" else "a document"
    return AwsUnavailable(f"cannot {doing} {what} in the bucket {bucket}: {code}")
