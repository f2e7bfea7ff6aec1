"""Files of whoever runs the worker in S3: question sets, a policy; read now and then, all anew."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from worker.decision.question_set import is_question_set_file
from worker.decision.strict_file import MAX_FILE_BYTES
from worker.errors import AwsUnavailable, AwsUnusable, Rejected, UsageError
from worker.queue.aws import Connection
from worker.queue.locations import Prefix
from worker.queue.s3 import S3Documents, open_documents


def is_in_s3(place: str) -> bool:
    """Return whether a place is a URI of S3, else a path."""
    return place.startswith("s3://")


class S3Folder:
    """The YAML and JSON files under a prefix; what is in folders below it is not read.

    Args:
        connection: how AWS is reached; a client lives as long as one reading.
        uri: ``s3://bucket`` or ``s3://bucket/prefix``; a prefix ends at a slash, written or not.
        max_files: more are refused, since they are not what was meant.
    """

    def __init__(self, connection: Connection, uri: str, max_files: int = 1000) -> None:
        self._max_files = max_files
        self._connection = connection
        self._uri = uri
        self._place = Prefix.parse(uri)

    async def read(self) -> Sequence[tuple[str, bytes]]:
        """Return name and content of each file; see :class:`worker.shelf.Source`.

        Raises:
            UsageError: nothing is there, or a file is too large.
            AwsUnusable: S3 cannot be used, or not now.
        """
        bucket = self._place.bucket
        async with open_documents(self._connection, connections=1) as documents:
            with _loudly(self._uri):
                names = await documents.names(bucket, self._place.key(""))
            if not names:
                raise UsageError(f"{self._uri}: nothing is there")
            chosen = sorted(filter(is_question_set_file, names))
            if len(chosen) > self._max_files:
                raise UsageError(
                    f"{self._uri}: {len(chosen)} files, at most {self._max_files} are read"
                )
            return [
                (name, await _content(documents, bucket, self._place.key(name))) for name in chosen
            ]


class S3File:
    """One object.

    Args:
        connection: how AWS is reached.
        uri: ``s3://bucket/key``.
    """

    def __init__(self, connection: Connection, uri: str) -> None:
        self._connection = connection
        self._uri = uri
        self._place = Prefix.parse(uri)

    async def read(self) -> bytes:
        """Return its content.

        Raises:
            UsageError: it is not there, or too large.
            AwsUnusable: S3 cannot be used, or not now.
        """
        async with open_documents(self._connection, connections=1) as documents:
            return await _content(documents, self._place.bucket, self._place.prefix)


async def _content(documents: S3Documents, bucket: str, key: str) -> bytes:
    with _loudly(f"s3://{bucket}/{key}"):
        document = await documents.read(bucket, key, max_bytes=MAX_FILE_BYTES, where="")
        return document.content


@contextmanager
def _loudly(uri: str) -> Iterator[None]:
    """Say which place could not be read: its name is the operator's word, no customer's.

    Raises:
        UsageError: there is no such place, or it holds too much.
        AwsUnusable: S3 refuses or is not reached; at the start nothing is tried again.
    """
    try:
        yield
    except Rejected as fault:
        raise UsageError(f"{uri}: {fault}") from None
    except AwsUnavailable as error:
        raise AwsUnusable(f"{uri}: {error}") from None
