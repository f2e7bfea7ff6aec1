"""A file of lines that grows: whole lines only, on disk when written, one writer at a time."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from worker.errors import UsageError


class LineFile:
    """An open file of lines."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def lines(self) -> Iterator[bytes]:
        """Read all whole lines, without what a killed process left of one."""
        self._file.seek(0)
        return _whole(self._file)

    def cut_torn_line(self) -> None:
        """Cut off what a killed process left of a line."""
        self._file.truncate(sum(map(len, self.lines())))

    def append(self, lines: Sequence[str]) -> None:
        """Append lines; they are on disk when this returns."""
        self._file.write("".join(f"{line}\n" for line in lines).encode())
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def open_lines(path: Path, *, beginning: bytes, instead: str) -> Iterator[LineFile]:
    """Open a file of lines to go on with, or a new one.

    Args:
        path: the file.
        beginning: how such a file begins; one that does not is somebody else's.
        instead: the option that names another file.

    Raises:
        UsageError: it cannot be written, is in use, or is somebody else's.
    """
    try:
        file = path.open("a+b")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; name another file with {instead}"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{path} is in use by another decision-worker") from error
        file.seek(0)
        if not beginning.startswith(file.read(len(beginning))):
            raise UsageError(f"{path} is another kind of file; name another one with {instead}")
        yield LineFile(file)


def read_lines(path: Path) -> Iterator[bytes]:
    """Read the whole lines of a file that may still grow.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from _whole(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _whole(file: BinaryIO) -> Iterator[bytes]:
    return (line for line in file if line.endswith(b"\n"))
