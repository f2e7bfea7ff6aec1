"""Read documents from folders, text, JSON, JSONL and CSV files, one after the other."""

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from worker.decision.question import Text
from worker.decision.ticket import MAX_TICKET_ID
from worker.errors import Rejected, UsageError
from worker.ports import Document
from worker.queue.contents import document_state
from worker.records import (
    Record,
    Unreadable,
    count_records,
    has_records,
    is_table,
    read_header,
    read_records,
)

JOURNAL_SUFFIX = ".submitted.jsonl"
"""How journals are called beside their sources; they are no documents."""

_JSON = (".json", ".json.gz")
_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One document.

    Attributes:
        name: where it is, for messages: a path, or a file and its line.
        ticket_id: the same whenever the same source is read.
        state: what it says.
    """

    name: str
    ticket_id: str
    state: Text = field(repr=False)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that cannot be submitted, and why, without any of its text."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """How sources are read.

    Attributes:
        column: the field of a line or row that is the state; None takes the whole line or row.
        id_column: the field that is the ticket id; None counts lines.
        pattern: which files of a folder are read.
        max_bytes: the largest file that is one document.
    """

    column: str | None = None
    id_column: str | None = None
    pattern: str = "*"
    max_bytes: int = 8 * 2**20


def check_sources(paths: Sequence[Path], reading: Reading) -> None:
    """Check that sources are there and fit together, before anything is sent.

    Raises:
        UsageError: one is missing, two have the same name, or a column is named where none is.
    """
    names = [_name(path) for path in paths]
    for path, name in zip(paths, names, strict=True):
        if not path.exists():
            raise UsageError(f"{path} does not exist")
        if names.count(name) > 1:
            raise UsageError(f"two sources are called {name}: their ticket ids would be the same")
        has_columns = path.is_file() and has_records(path)
        if not has_columns and (reading.column or reading.id_column):
            raise UsageError(f"{path} has no columns: --column and --id-column need JSONL or CSV")
        if path.is_file() and is_table(path):
            _check_header(path, reading)


def count_sources(paths: Sequence[Path], reading: Reading) -> int:
    """Return how many documents there are, without looking into them."""
    return sum(_count(path, reading) for path in paths)


def read_sources(paths: Sequence[Path], reading: Reading) -> Iterator[SourceDocument | Skipped]:
    """Read all documents, and say of each that cannot be read why; a ticket id occurs once."""
    seen: set[str] = set()
    for found in itertools.chain.from_iterable(_read(path, reading) for path in paths):
        if isinstance(found, SourceDocument):
            if found.ticket_id in seen:
                yield Skipped(found.name, "its ticket id occurs twice")
                continue
            seen.add(found.ticket_id)
        yield found


def _read(path: Path, reading: Reading) -> Iterator[SourceDocument | Skipped]:
    if not _is_text(_name(path)):
        return iter([_unnameable(_name(path))])
    if path.is_dir():
        return _folder(path, reading)
    if has_records(path):
        return _records(path, reading)
    return iter([_file(path, _name(path), reading)])


def _count(path: Path, reading: Reading) -> int:
    if path.is_dir():
        return len(_files(path, reading))
    return count_records(path) if has_records(path) else 1


def _files(folder: Path, reading: Reading) -> list[Path]:
    """Return the files of *folder* and of folders in it, in order, without hidden and our own."""
    found = (path.relative_to(folder) for path in folder.rglob(reading.pattern))
    seen = (
        inside
        for inside in found
        if not inside.name.endswith(JOURNAL_SUFFIX)
        and not any(part.startswith(".") for part in inside.parts)
    )
    return sorted(inside for inside in seen if (folder / inside).is_file())


def _folder(folder: Path, reading: Reading) -> Iterator[SourceDocument | Skipped]:
    for inside in _files(folder, reading):
        name = f"{_name(folder)}/{inside.as_posix()}"
        is_text = _is_text(name)
        yield _file(folder / inside, name, reading) if is_text else _unnameable(name)


def _is_text(name: str) -> bool:
    """Return whether a file's name is UTF-8; Python keeps the bytes of one that is not."""
    return not any("\udc80" <= letter <= "\udcff" for letter in name)


def _unnameable(name: str) -> Skipped:
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")
    return Skipped(shown, "its name is not UTF-8, which a ticket id must be")


def _file(path: Path, name: str, reading: Reading) -> SourceDocument | Skipped:
    try:
        if path.stat().st_size > reading.max_bytes:
            return Skipped(name, f"has more than {reading.max_bytes} bytes (--max-document-bytes)")
        content = path.read_bytes()
    except OSError as error:
        return Skipped(name, f"cannot be read: {error.strerror}")
    document = Document(content, is_json=path.name.lower().endswith(_JSON))
    try:
        state = document_state(document, max_bytes=reading.max_bytes, where="")
        return _document(name, short_id(name), state)
    except Rejected as fault:
        return Skipped(name, fault.message)


def _records(path: Path, reading: Reading) -> Iterator[SourceDocument | Skipped]:
    table = is_table(path)
    for record in read_records(path):
        line = f" (line {record.line})" if table and record.line is not None else ""
        if isinstance(record, Unreadable) and record.number is None:
            yield Skipped(_name(path), f"{record.reason}{line}")
            return
        name = f"{_name(path)}:{record.number}"
        if isinstance(record, Unreadable):
            yield Skipped(name, f"{record.reason}{line}")
            continue
        try:
            yield _record(name, record.value, _of_texts(record, reading) if table else reading)
        except Rejected as fault:
            yield Skipped(name, f"{fault.message}{line}")


def _of_texts(row: Record, reading: Reading) -> Reading:
    """Return how a row is read: where it has one column beside the id, that is the state."""
    others = [column for column in row.value if column != reading.id_column]
    is_text = reading.column is None and len(others) == 1
    return replace(reading, column=others[0]) if is_text else reading


def _check_header(path: Path, reading: Reading) -> None:
    header = read_header(path)
    for column in (reading.column, reading.id_column):
        if column is not None and column not in header:
            raise UsageError(f"{path} has no column {column}; it has {', '.join(header)}")


def _record(name: str, record: Any, reading: Reading) -> SourceDocument:
    """Return the document of one line or row.

    Raises:
        Rejected: a column is missing, or holds something else than asked for.
    """
    ticket_id = short_id(name)
    if isinstance(record, dict) and reading.id_column in record:
        ticket_id = _given_id(record[reading.id_column])
        record = {key: value for key, value in record.items() if key != reading.id_column}
    elif reading.id_column is not None:
        raise Rejected("invalid_document", f"has no field {reading.id_column}")
    if reading.column is None:
        return _document(name, ticket_id, record)
    if not isinstance(record, dict) or reading.column not in record:
        raise Rejected("invalid_document", f"has no field {reading.column}")
    return _document(name, ticket_id, record[reading.column])


def _given_id(value: Any) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if isinstance(value, str) or is_number else ""
    if not text.strip() or len(text) > MAX_TICKET_ID:
        raise Rejected(
            "invalid_document", f"its id must be text of 1 to {MAX_TICKET_ID} characters"
        )
    return text


def _document(name: str, ticket_id: str, state: Any) -> SourceDocument:
    if not isinstance(state, str | dict | list):
        raise Rejected("invalid_document", "must be text, an object or an array")
    if not state or (isinstance(state, str) and not state.strip()):
        raise Rejected("invalid_document", "is empty")
    return SourceDocument(name, ticket_id, state)


def short_id(name: str) -> str:
    """Return *name* as a ticket id: as it is, or its end and a digest when it is too long."""
    if len(name) <= MAX_TICKET_ID:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    kept = MAX_TICKET_ID - _DIGEST_CHARACTERS - 1
    return f"{digest[:_DIGEST_CHARACTERS]}-{name[-kept:]}"


def _name(path: Path) -> str:
    return path.resolve().name
