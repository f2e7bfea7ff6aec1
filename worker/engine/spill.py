"""Keep parked trunks in a folder on disk, so that a restart or a redelivery finds them.

A file's name says which model, build and options its state belongs to, and which tokens it holds.
Its content is checked before it is used: llama.cpp would take a damaged state for a good one.
"""

import hashlib
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from worker.engine.trunks import Found, Parked, State, borders, trunk_key

_SUFFIX = ".trunk"
_MAGIC = b"DWTRUNK1"
_DIGEST_BYTES = 32
_SIZE = struct.Struct("<Q")


class Spill:
    """A folder of saved trunks within a bound in bytes; the least recently used go first.

    Args:
        folder: made when missing; may be shared by processes.
        fingerprint: of everything that a state depends on: model, build, cache type, kernel.
        max_bytes: of all files of this fingerprint together.
    """

    def __init__(self, folder: Path, fingerprint: str, max_bytes: int) -> None:
        self._folder = folder
        self._prefix = hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
        self._max_bytes = max_bytes

    def save(self, trunk: Sequence[int], state: State) -> None:
        """Write the state of *trunk*; a folder that cannot be written keeps nothing.

        A file is written beside its name and renamed, so that no reader sees half of it.
        """
        content = _encode(trunk, state)
        if len(content) > self._max_bytes:
            return
        path = self._path(trunk)
        unfinished = path.with_suffix(f"{_SUFFIX}.{id(self):x}.unfinished")
        with suppress(OSError):
            # Tokens are the customer's text: for this user only.
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(content), keep=path)
            unfinished.write_bytes(content)
            unfinished.replace(path)

    def find(self, trunk: Sequence[int]) -> Found | None:
        """Read the longest saved trunk that ends on a border of *trunk*, and count it as used."""
        for border in reversed(borders(len(trunk))):
            path = self._path(trunk[:border])
            try:
                content = path.read_bytes()
                path.touch()
            except OSError:
                continue
            state = _decode(trunk[:border], content)
            if state is not None:
                return Found(Parked(border, state), border)
            path.unlink(missing_ok=True)
        return None

    def _path(self, trunk: Sequence[int]) -> Path:
        digest = hashlib.sha256(trunk_key(trunk)).hexdigest()
        return self._folder / f"{self._prefix}-{digest}{_SUFFIX}"

    def _make_room(self, needed_bytes: int, keep: Path) -> None:
        files = [
            (status.st_mtime_ns, status.st_size, path)
            for path in self._folder.glob(f"{self._prefix}-*{_SUFFIX}")
            if path != keep and (status := _status(path)) is not None
        ]
        used = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if used + needed_bytes <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            used -= size


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _encode(trunk: Sequence[int], state: State) -> bytes:
    key = trunk_key(trunk)
    parts = [_SIZE.pack(len(key)), key, _SIZE.pack(len(state))]
    for piece in state:
        parts += [_SIZE.pack(len(piece)), bytes(piece)]
    body = b"".join(parts)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(trunk: Sequence[int], content: bytes) -> State | None:
    """Return the state in a file; None when it is damaged or of other tokens."""
    head = len(_MAGIC) + _DIGEST_BYTES
    body = memoryview(content)[head:]
    if (
        content[: len(_MAGIC)] != _MAGIC
        or hashlib.sha256(body).digest() != content[len(_MAGIC) : head]
    ):
        return None
    key = trunk_key(trunk)
    at = _SIZE.size
    if bytes(body[at : at + len(key)]) != key or _SIZE.unpack_from(body)[0] != len(key):
        return None
    at += len(key)
    (count,) = _SIZE.unpack_from(body, at)
    at += _SIZE.size
    pieces = []
    for _ in range(count):
        (size,) = _SIZE.unpack_from(body, at)
        at += _SIZE.size
        pieces.append(bytearray(body[at : at + size]))
        at += size
    return tuple(pieces)
