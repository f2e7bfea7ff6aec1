"""Read the records of JSONL, CSV and TSV files: one a line, or one a row."""

import csv
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from worker.decision.strict_json import parse_json
from worker.errors import Rejected, UsageError

if TYPE_CHECKING:
    import _csv  # the reader's type has no public name

_LINES = (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv")
_DELIMITERS = ",;\t"
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Record:
    """One line or row.

    Attributes:
        number: of the line in a JSONL file, of the row below the header in a table; from 1.
        value: what it holds: JSON data, or a table's texts by column.
        line: of the file on which it begins, from 1.
    """

    number: int
    value: Any = field(repr=False)
    line: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line or row that cannot be read, and why, without any of its text.

    Attributes:
        number: as of a record; None: nothing from here on can be read.
        line: as of a record; None: not known.
    """

    number: int | None
    reason: str
    line: int | None


def is_table(path: Path) -> bool:
    """Return whether a file's name says that it has rows under a header."""
    return path.suffix.lower() in _TABLES


def has_records(path: Path) -> bool:
    """Return whether a file's name says that it has one record on each line or row."""
    return path.suffix.lower() in _LINES or is_table(path)


def count_records(path: Path) -> int:
    """Return how many records there are, as far as they can be read, without looking into them."""
    if not is_table(path):
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    count = 0
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text, suppress(csv.Error):
        for row in _rows(text, path):
            count += bool(row)
    return max(0, count - 1)


def read_header(path: Path) -> list[str]:
    """Return the columns of a table.

    Raises:
        UsageError: it is no table, or two columns have the same name.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(_rows(file, path), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no UTF-8 CSV") from error
    if len(set(header)) != len(header):
        raise UsageError(f"{path}: two columns have the same name")
    return header


def read_records(path: Path) -> Iterator[Record | Unreadable]:
    """Read all records, and say of each that cannot be read why; empty lines are none."""
    return _read_table(path) if is_table(path) else _read_lines(path)


def _read_lines(path: Path) -> Iterator[Record | Unreadable]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            content = (line.removeprefix(_MARK) if number == 1 else line).strip()
            if not content:
                continue
            try:
                yield Record(number, parse_json(content, code="invalid_document"), number)
            except Rejected as fault:
                yield Unreadable(number, fault.message, number)


def _read_table(path: Path) -> Iterator[Record | Unreadable]:
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _rows(file, path)
            header = next(rows, [])
            line = rows.line_num + 1
            for number, row in enumerate(rows, 1):
                if len(row) == len(header):
                    yield Record(number, dict(zip(header, row, strict=True)), line)
                elif row:
                    reason = f"the row has {len(row)} fields, the header {len(header)}"
                    yield Unreadable(number, reason, line)
                line = rows.line_num + 1  # a field may span lines
    except UnicodeDecodeError:
        yield Unreadable(None, "is not UTF-8 from here on", None)
    except csv.Error as error:
        yield Unreadable(None, f"is not CSV from here on: {error}", line)


def _rows(file: TextIO, path: Path) -> "_csv.Reader":
    """Return the rows of a table, header first; fields are parted by what parts the header most."""
    csv.field_size_limit(sys.maxsize)  # the default is 128 KiB, and a field may be a document
    first = file.readline()
    file.seek(0)
    is_tabs = path.suffix.lower() == ".tsv"
    delimiter = "\t" if is_tabs else max(_DELIMITERS, key=first.count)
    return csv.reader(file, delimiter=delimiter, strict=True)
