"""Bearer keys: read them from a file, compare without telling by time how far a guess got."""

import hashlib
import hmac
from pathlib import Path

import structlog

from worker.errors import UsageError

_SCHEME = "bearer"

_log = structlog.get_logger()


class Keys:
    """The keys that callers may use.

    Args:
        path: a file of one key a line; empty lines and lines that begin with ``#`` do not count.

    Raises:
        UsageError: the file cannot be read, or has no key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digests = _read(path)

    def __len__(self) -> int:
        return len(self._digests)

    async def reload(self) -> None:
        """Read the file again; what is wrong with it is logged, and the keys stay as they were."""
        try:
            self._digests = _read(self._path)
        except UsageError as error:
            _log.error("keys_not_reloaded", error=str(error))
        else:
            _log.info("keys_reloaded", keys=len(self))

    def admit(self, authorization: str | None) -> bool:
        """Return whether an ``Authorization`` header carries one of the keys."""
        scheme, _, key = (authorization or "").partition(" ")
        digest = _digest(key.strip())
        # All of them, always: how long this takes says nothing.
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        return scheme.lower() == _SCHEME and any(found)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except OSError as error:
        raise UsageError(f"api_keys_file: {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"api_keys_file: {path}: not UTF-8") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise UsageError(f"api_keys_file: {path}: has no key")
    if any(not key.isascii() or not key.isprintable() or " " in key for key in keys):
        raise UsageError(f"api_keys_file: {path}: a key must be printable ASCII without spaces")
    return tuple(map(_digest, keys))
