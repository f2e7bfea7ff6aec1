"""Read documents from folders, text, JSON, JSONL and CSV files, one after the other."""

import csv
import hashlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from worker.decision.question import Text
from worker.decision.strict_json import parse_json
from worker.decision.ticket import MAX_TICKET_ID
from worker.errors import Rejected, UsageError
from worker.ports import Document
from worker.queue.contents import document_state

JOURNAL_SUFFIX = ".submitted.jsonl"
"""How journals are called beside their sources; they are no documents."""

_LINES = (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv")
_JSON = (".json", ".json.gz")
_DELIMITERS = ",;\t"
_DIGEST_CHARACTERS = 16
_MARK = b"\xef\xbb\xbf"


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
        has_columns = path.is_file() and path.suffix.lower() in (*_LINES, *_TABLES)
        if not has_columns and (reading.column or reading.id_column):
            raise UsageError(f"{path} has no columns: --column and --id-column need JSONL or CSV")
        if path.is_file() and path.suffix.lower() in _TABLES:
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
    if path.is_dir():
        return _folder(path, reading)
    suffix = path.suffix.lower()
    if suffix in _LINES:
        return _lines(path, reading)
    if suffix in _TABLES:
        return _table(path, reading)
    return iter([_file(path, _name(path), reading)])


def _count(path: Path, reading: Reading) -> int:
    suffix = path.suffix.lower()
    if path.is_dir():
        return len(_files(path, reading))
    if suffix in _LINES:
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    if suffix in _TABLES:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
            return sum(1 for row in _rows(text, path) if row) - 1
    return 1


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
        yield _file(folder / inside, f"{_name(folder)}/{inside.as_posix()}", reading)


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


def _lines(path: Path, reading: Reading) -> Iterator[SourceDocument | Skipped]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            name = f"{_name(path)}:{number}"
            content = (line.removeprefix(_MARK) if number == 1 else line).strip()
            if not content:
                continue
            try:
                yield _record(name, parse_json(content, code="invalid_document"), reading)
            except Rejected as fault:
                yield Skipped(name, fault.message)


def _table(path: Path, reading: Reading) -> Iterator[SourceDocument | Skipped]:
    name = _name(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _rows(file, path)
            header = next(rows, [])
            others = [column for column in header if column != reading.id_column]
            if reading.column is None and len(others) == 1:
                reading = replace(reading, column=others[0])  # a list of texts
            for number, row in enumerate(rows, 1):
                if row:
                    yield _row(f"{name}:{number}", header, row, reading)
    except UnicodeDecodeError:
        yield Skipped(name, "is not UTF-8 from here on")
    except csv.Error as error:
        yield Skipped(name, f"is not CSV from here on: {error}")


def _row(
    name: str, header: list[str], row: list[str], reading: Reading
) -> SourceDocument | Skipped:
    if len(row) != len(header):
        return Skipped(name, f"the row has {len(row)} fields, the header {len(header)}")
    try:
        return _record(name, dict(zip(header, row, strict=True)), reading)
    except Rejected as fault:
        return Skipped(name, fault.message)


def _rows(file: TextIO, path: Path) -> Iterator[list[str]]:
    """Return the rows of a table, header first; fields are parted by what parts the header most."""
    csv.field_size_limit(sys.maxsize)  # the default is 128 KiB, and a field may be a document
    first = file.readline()
    file.seek(0)
    is_tabs = path.suffix.lower() == ".tsv"
    delimiter = "\t" if is_tabs else max(_DELIMITERS, key=first.count)
    return csv.reader(file, delimiter=delimiter, strict=True)


def _check_header(path: Path, reading: Reading) -> None:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(_rows(file, path), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no UTF-8 CSV") from error
    if len(set(header)) != len(header):
        raise UsageError(f"{path}: two columns have the same name")
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
