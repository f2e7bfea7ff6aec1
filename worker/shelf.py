"""The question sets that may be asked now, read from a source and read again on request."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from worker import metrics
from worker.decision.question_set import (
    QuestionSet,
    QuestionSets,
    is_question_set_file,
    load_question_sets,
)
from worker.errors import UsageError, WorkerError

_log = structlog.get_logger()


class Source(Protocol):
    """Where files of whoever runs the worker lie: question sets, or a policy."""

    async def read(self) -> Sequence[tuple[str, bytes]]:
        """Return name and content of each file.

        Raises:
            UsageError: the files cannot be read.
            WorkerError: the place cannot be reached.
        """
        ...


class Folder:
    """A folder's YAML and JSON files; what is in folders below it is not read.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> Sequence[tuple[str, bytes]]:
        """Return name and content of each file; see :class:`Source`."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[tuple[str, bytes]]:
        return read_folder(self._path)


def read_folder(folder: Path) -> list[tuple[str, bytes]]:
    """Return name and content of each question set of a folder.

    Raises:
        UsageError: a file cannot be read, or what has a file's name is none: a link to nothing, a
            folder, a pipe.
    """
    try:
        paths = [path for path in sorted(folder.iterdir()) if is_question_set_file(path.name)]
        odd = [str(path) for path in paths if not path.is_file()]
        if odd:
            raise UsageError(f"question sets: {', '.join(odd)}: not a file")
        return [(path.name, path.read_bytes()) for path in paths]
    except OSError as error:
        raise UsageError(f"question sets: {error.filename}: {error.strerror}") from error


class BookShelf:
    """Holds the sets of a source; those that were good stay when new ones are not.

    Args:
        source: where they are read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sets = QuestionSets()

    @property
    def sets(self) -> QuestionSets:
        """The sets that may be asked now."""
        return self._sets

    def find(self, asked: str) -> QuestionSet:
        """Return the set that a ticket asks for; see :class:`worker.decision.inquiry.Shelf`."""
        return self._sets.find(asked)

    def pin(self, versions: Mapping[str, str]) -> None:
        """Take no other content for these versions from now on.

        Args:
            versions: hashes by ``name@version``.
        """
        self._sets = QuestionSets(self._sets, {**self._sets.seen, **versions})

    async def load(self) -> None:
        """Read the source.

        Raises:
            WorkerError: a file is wrong, or cannot be read; the sets stay as they were.
        """
        self._sets = load_question_sets(await self._source.read(), self._sets)
        metrics.QUESTION_SETS.set(len(self._sets))

    async def reload(self) -> None:
        """Read the source again; what is wrong is logged and counted, and changes nothing."""
        try:
            await self.load()
        except WorkerError as error:
            metrics.QUESTION_SET_RELOADS.labels("refused").inc()
            _log.error("question_sets_kept", error=str(error), sets=len(self._sets))
        else:
            metrics.QUESTION_SET_RELOADS.labels("loaded").inc()
            _log.info("question_sets_loaded", sets=[one.key for one in self._sets])
