"""Which files a model is made of, and what can be known of them without llama.cpp."""

import re
from pathlib import Path

from worker.errors import CannotRun

_MAGIC = b"GGUF"
_SPLIT = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def model_files(path: Path) -> tuple[Path, ...]:
    """Return the files of a model: *path* itself, or all parts when it is the first of a split.

    Raises:
        CannotRun: *path* is a later part.
    """
    found = _SPLIT.fullmatch(path.name)
    if found is None:
        return (path,)
    if int(found["number"]) != 1:
        first = f"{found['stem']}-00001-of-{found['count']}.gguf"
        raise CannotRun(f"the model {path} is a later part of a split GGUF; name {first}")
    return tuple(
        path.with_name(f"{found['stem']}-{number:05}-of-{found['count']}.gguf")
        for number in range(1, int(found["count"]) + 1)
    )


def is_later_part(path: Path) -> bool:
    """Return whether a file is a part of a split GGUF, and not the first."""
    found = _SPLIT.fullmatch(path.name)
    return found is not None and int(found["number"]) != 1


def check_files(path: Path, memory_bytes: int | None) -> int:
    """Check a model's files; return their size in bytes.

    Args:
        path: the model, or the first of its parts.
        memory_bytes: what is free for its weights; None when they go elsewhere.

    Raises:
        CannotRun: a file is missing or not GGUF, or all are larger than *memory_bytes*.
    """
    size = sum(map(_size, model_files(path)))
    if memory_bytes is not None and size > memory_bytes:
        raise CannotRun(
            f"the model {path} needs {size / 2**30:.1f} GiB of memory for its weights alone,"
            f" {memory_bytes / 2**30:.1f} GiB are free"
        )
    return size


def _size(path: Path) -> int:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        size = path.stat().st_size
    except OSError as error:
        raise CannotRun(f"the model {path} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise CannotRun(f"the model {path} is not a GGUF file")
    return size
