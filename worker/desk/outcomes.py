"""The file that outcomes are collected in: one a line, each once, on disk before it is deleted."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from worker.decision.outcome import SCHEMA
from worker.errors import UsageError
from worker.lines import LineFile, open_lines, read_lines

Outcome = dict[str, Any]
"""An outcome as it was published."""

_BEGINNING = b'{"schema"'


class OutcomeFile:
    """An open file of outcomes.

    Attributes:
        ticket_ids: of all outcomes in it.
    """

    def __init__(self, file: LineFile, outcome_ids: set[str], ticket_ids: set[str]) -> None:
        self._file = file
        self._outcome_ids = outcome_ids
        self.ticket_ids = ticket_ids

    def add(self, outcomes: Sequence[Outcome]) -> int:
        """Write those outcomes that are not there yet; return how many, once they are on disk."""
        new = {outcome["outcome_id"]: outcome for outcome in reversed(outcomes)}
        lines = [
            json.dumps(outcome, ensure_ascii=False)
            for outcome_id, outcome in reversed(new.items())
            if outcome_id not in self._outcome_ids
        ]
        if lines:
            self._file.append(lines)
        self._outcome_ids.update(new)
        self.ticket_ids.update(outcome["ticket_id"] for outcome in outcomes)
        return len(lines)


@contextmanager
def open_outcomes(path: Path) -> Iterator[OutcomeFile]:
    """Open a file of outcomes to go on with, or a new one; one process at a time.

    Raises:
        UsageError: it cannot be written, is in use, or holds something else.
    """
    with open_lines(path, beginning=_BEGINNING, instead="--output") as file:
        outcome_ids, ticket_ids = set(), set()
        for line in file.lines():
            outcome = parse_outcome(line)
            if outcome is None:
                raise UsageError(
                    f"{path} holds something else than outcomes; name another --output"
                )
            outcome_ids.add(outcome["outcome_id"])
            ticket_ids.add(outcome["ticket_id"])
        file.cut_torn_line()
        yield OutcomeFile(file, outcome_ids, ticket_ids)


def read_outcomes(path: Path) -> Iterator[Outcome]:
    """Read the outcomes of a closed file, one after the other."""
    for line in read_lines(path):
        if (outcome := parse_outcome(line)) is not None:
            yield outcome


def parse_outcome(text: str | bytes) -> Outcome | None:
    """Return the outcome that *text* is, or None when it is none."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) and _is_outcome(tree) else None


def _is_outcome(tree: Mapping[str, Any]) -> bool:
    is_named = all(isinstance(tree.get(name), str) for name in ("outcome_id", "ticket_id"))
    return tree.get("schema") == SCHEMA and is_named
