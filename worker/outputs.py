"""Write a file whole or not at all, and never over what it is made of."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.errors import UsageError


@contextmanager
def unfinished_output(path: Path, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield an empty file to write; it takes the place of *path* when all is written.

    Where *path* is a link, what it points to is replaced.

    Args:
        path: of the finished file; one that is there is replaced.
        inputs: files that it is made of.

    Raises:
        UsageError: it is one of the inputs or no regular file, or it cannot be written.
    """
    check_output(path, inputs)
    target = path.resolve()
    # A name that nobody has: what is called so may be somebody's.
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}.unfinished")
    try:
        unfinished.touch(exist_ok=False)
        try:
            yield unfinished
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        if error.filename not in (str(unfinished), None):
            raise  # of something that is read meanwhile
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def check_output(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Check that a file may be written, before anything is done for it.

    Raises:
        UsageError: it is one of the inputs, or no regular file.
    """
    try:
        there = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    if not stat.S_ISREG(there.st_mode):
        raise UsageError(f"cannot write {path}: it is no regular file")
    for one in inputs:
        if one.exists() and os.path.samestat(there, one.stat()):
            raise UsageError(f"cannot write {path}: it is read as well, as {one}")


def write_output(path: Path, content: bytes, inputs: Iterable[Path] = ()) -> None:
    """Write a file whole; see :func:`unfinished_output`."""
    with unfinished_output(path, inputs) as unfinished:
        unfinished.write_bytes(content)
