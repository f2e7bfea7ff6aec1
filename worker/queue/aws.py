"""Open AWS clients, and translate what botocore raises, once."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import ClientError as HttpError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)

from worker import metrics
from worker.errors import AwsUnavailable, AwsUnusable, EntryRefused
from worker.settings import aws_region

if TYPE_CHECKING:
    import aioboto3
    from aiobotocore.config import AioConfig
    from types_aiobotocore_s3.client import S3Client
    from types_aiobotocore_sns.client import SNSClient
    from types_aiobotocore_sqs.client import SQSClient

INVALID = "InvalidParameter"
"""What AWS says of a call, or of an entry, that it cannot read."""

# Refusals that no later attempt will change.
_DEFINITE = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "InvalidAddress",
        "InvalidClientTokenId",
        INVALID,
        "KMSAccessDenied",
        "KmsAccessDenied",
        "NotFound",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


# Refusals of an entry for what it says. Not SenderFault: it is true for a throttled key as well.
_OF_THE_ENTRY = frozenset(
    {
        INVALID,
        "InvalidMessageContents",
        "InvalidParameterValue",
        "MessageNotInflight",
        "AWS.SimpleQueueService.MessageNotInflight",
        "ParameterValueInvalid",
        "ReceiptHandleIsInvalid",
        "ValidationException",
    }
)
# What passes, though AWS calls it the sender's fault.
_PASSING = ("Throttl", "RequestThrottled", "KMS", "Kms", "OverLimit")


@dataclass(frozen=True, slots=True)
class Connection:
    """How AWS is reached.

    Attributes:
        session: carries credentials and region.
        endpoint_url: where to call instead of AWS; None leaves it to ``AWS_ENDPOINT_URL``.
    """

    session: "aioboto3.Session"
    endpoint_url: str | None = None

    def check_region(self) -> None:
        """Check that a region is configured.

        Raises:
            AwsUnusable: none is.
        """
        if self.session.region_name is None:
            raise AwsUnusable("no AWS region: set AWS_REGION, or a region in the AWS profile")

    def sqs(self, config: "AioConfig") -> "AbstractAsyncContextManager[SQSClient]":
        """Return a client for SQS, to be entered."""
        return self.session.client("sqs", endpoint_url=self.endpoint_url, config=config)

    def sns(self, config: "AioConfig") -> "AbstractAsyncContextManager[SNSClient]":
        """Return a client for SNS, to be entered."""
        return self.session.client("sns", endpoint_url=self.endpoint_url, config=config)

    def s3(self, config: "AioConfig") -> "AbstractAsyncContextManager[S3Client]":
        """Return a client for S3, to be entered."""
        return self.session.client("s3", endpoint_url=self.endpoint_url, config=config)


def aws_connection() -> Connection:
    """Return how AWS is reached, as its own environment variables say; no client is made.

    Raises:
        AwsUnusable: they say what cannot be.
    """
    # Imported here: it takes a third of a second, which a sidecar without a queue need not wait.
    import aioboto3

    with aws_errors("read the AWS configuration", starting=True):
        return Connection(aioboto3.Session(region_name=aws_region()))


def poll_config(wait_seconds: int) -> "AioConfig":
    """Return the client configuration for long polls: one attempt, which outlasts the wait."""
    return _config(attempts=1, read_seconds=wait_seconds + 10, connections=2)


def call_config(connections: int, *, read_seconds: float = 10) -> "AioConfig":
    """Return the client configuration for short calls."""
    return _config(attempts=3, read_seconds=read_seconds, connections=connections)


def _config(*, attempts: int, read_seconds: float, connections: int) -> "AioConfig":
    from aiobotocore.config import AioConfig  # see aws_connection

    return AioConfig(
        connect_timeout=5,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=connections,
    )


@contextmanager
def aws_errors(
    doing: str, *, starting: bool = False, operation: str | None = None
) -> Iterator[None]:
    """Translate errors of AWS calls.

    Args:
        doing: what was tried, such as ``receive from the queue``.
        starting: whether the worker is only starting, when nothing should be tried again.
        operation: under which the call is counted; None counts none.

    Raises:
        AwsUnusable: trying again will not help, or the worker is starting.
        AwsUnavailable: anything else.
    """
    try:
        with _translated(doing, starting=starting):
            yield
    except (AwsUnavailable, AwsUnusable) as error:
        _count(operation, "unusable" if isinstance(error, AwsUnusable) else "unavailable")
        raise
    _count(operation, "done")


def _count(operation: str | None, result: str) -> None:
    if operation is not None:
        metrics.AWS_CALLS.labels(operation, result).inc()


@contextmanager
def _translated(doing: str, *, starting: bool) -> Iterator[None]:
    try:
        yield
    except (NoCredentialsError, NoRegionError, PartialCredentialsError) as error:
        raise AwsUnusable(f"cannot {doing}: {error}") from error
    except ClientError as error:
        fault: Any = error.response.get("Error", {})
        code = str(fault.get("Code", "unknown"))
        definite = starting or code in _DEFINITE
        message = f"cannot {doing}: AWS says {code}"
        raise (AwsUnusable(message, code) if definite else AwsUnavailable(message)) from error
    except (BotoCoreError, HttpError, OSError, ValueError) as error:
        message = f"cannot {doing}: {_in_one_line(error)}"
        raise (AwsUnusable if starting else AwsUnavailable)(message) from error


def errors_by_place(
    answer: Any, count: int, doing: str, *, operation: str
) -> list[Exception | None]:
    """Return what each entry of a batch call failed with; None for those that were accepted.

    Args:
        answer: of SQS or SNS, whose ``Failed`` entries have the place as ``Id``.
        count: how many entries were sent.
        doing: what was tried with one.
        operation: under which failed entries are counted.
    """
    errors: list[Exception | None] = [None] * count
    for entry in answer.get("Failed", ()):
        errors[int(entry["Id"])] = _entry_error(entry, doing)
        metrics.AWS_ENTRY_FAILURES.labels(operation).inc()
    return errors


def _entry_error(entry: Any, doing: str) -> AwsUnavailable | AwsUnusable:
    code = str(entry.get("Code", "unknown"))
    message = f"cannot {doing}: AWS says {code}"
    if code in _DEFINITE - {INVALID}:
        return AwsUnusable(message, code)
    return EntryRefused(message) if code in _OF_THE_ENTRY else AwsUnavailable(message)


def is_refused_for_good(entry: Any) -> bool:
    """Return whether a failed entry of a batch call would fail the next time, too."""
    passes = str(entry.get("Code", "")).startswith(_PASSING)
    return bool(entry.get("SenderFault")) and not passes


def _in_one_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
