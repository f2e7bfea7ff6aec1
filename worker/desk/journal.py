"""The journal of a submission: which tickets are on the queue, known after any interruption."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from worker.desk.letters import Letter
from worker.errors import UsageError
from worker.lines import LineFile, open_lines, read_lines

FORMAT = "decision-submitted/1"

_BEGINNING = b'{"format"'


class Journal:
    """An open journal.

    Attributes:
        known: the body's hash by ticket id, of all tickets that are on the queue.
    """

    def __init__(self, file: LineFile, known: dict[str, str]) -> None:
        self._file = file
        self.known = known

    def has(self, letter: Letter) -> bool:
        """Say whether this very letter was sent."""
        return self.known.get(letter.ticket_id) == letter.sha256()

    def add(self, letters: Sequence[Letter]) -> None:
        """Note that *letters* were taken; they are noted on disk when this returns."""
        entries = [(letter.ticket_id, letter.sha256()) for letter in letters]
        lines = [
            json.dumps({"ticket_id": ticket_id, "sha256": digest}, ensure_ascii=False)
            for ticket_id, digest in entries
        ]
        self._file.append(lines)
        self.known.update(entries)


@contextmanager
def open_journal(path: Path, queue_url: str) -> Iterator[Journal]:
    """Open the journal for one submission at a time, and begin it when it is new.

    Raises:
        UsageError: it cannot be written, is in use, is no journal, or is another queue's.
    """
    with open_lines(path, beginning=_BEGINNING, instead="--submitted") as file:
        lines = _parse(file.lines(), path)
        head = next(lines, None)
        known = {line["ticket_id"]: line["sha256"] for line in lines}
        if head is not None and head["queue_url"] != queue_url:
            raise UsageError(
                f"{path} is the journal of the queue {head['queue_url']};"
                " name another with --submitted"
            )
        file.cut_torn_line()
        if head is None:
            file.append([json.dumps({"format": FORMAT, "queue_url": queue_url})])
        yield Journal(file, known)


def read_submitted(path: Path) -> set[str]:
    """Return the ids of all submitted tickets.

    Raises:
        UsageError: the journal cannot be read, or is none.
    """
    lines = _parse(read_lines(path), path)
    if next(lines, None) is None:
        raise UsageError(f"{path} is empty: nothing was submitted")
    return {line["ticket_id"] for line in lines}


def _parse(lines: Iterable[bytes], path: Path) -> Iterator[dict[str, Any]]:
    needed = {"format", "queue_url"}
    for line in lines:
        try:
            tree = json.loads(line)
        except ValueError:
            tree = None
        if not isinstance(tree, dict) or not needed <= tree.keys():
            raise UsageError(f"{path} is no list of submitted tickets, as `submit` writes it")
        yield tree
        needed = {"ticket_id", "sha256"}
