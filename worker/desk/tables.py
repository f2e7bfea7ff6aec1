"""Write collected outcomes as a table: CSV or Parquet, whole or not at all."""

import csv
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from worker.desk.outcomes import Outcome, read_outcomes
from worker.desk.rows import Columns, columns_of
from worker.errors import UsageError
from worker.outputs import unfinished_output

_ROWS_AT_ONCE = 10_000


def check_format(output: Path) -> None:
    """Check that *output* can be written as its name says.

    Raises:
        UsageError: no known format, or what it needs is not installed.
    """
    if output.suffix not in (".jsonl", *_WRITERS):
        raise UsageError(f"--output must end in .jsonl, .csv or .parquet, not {output.name}")
    if output.suffix == ".parquet":
        _pyarrow()


def collected_in(output: Path) -> Path:
    """Return the file of outcomes that *output* is made from; for JSONL it is the same."""
    return output if output.suffix == ".jsonl" else output.with_name(f"{output.name}.partial.jsonl")


def write_table(output: Path) -> int:
    """Write *output* from its file of outcomes; return the number of rows.

    Raises:
        UsageError: it cannot be written.
    """
    source = collected_in(output)
    columns = columns_of(read_outcomes(source))
    with unfinished_output(output, [source]) as unfinished:
        return _WRITERS[output.suffix](unfinished, columns, read_outcomes(source))


def _write_csv(path: Path, columns: Columns, outcomes: Iterable[Outcome]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns.names())
        writer.writeheader()
        for count, outcome in enumerate(outcomes, 1):  # noqa: B007 - counted
            writer.writerow(columns.row(outcome))
    return count


def _write_parquet(path: Path, columns: Columns, outcomes: Iterable[Outcome]) -> int:
    pyarrow, parquet = _pyarrow()
    numbers = columns.numbers()
    schema = pyarrow.schema(
        [
            (name, pyarrow.float64() if name in numbers else pyarrow.string())
            for name in columns.names()
        ]
    )
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for rows in _chunks(columns.row(outcome) for outcome in outcomes):
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def _chunks(rows: Iterator[Any]) -> Iterator[Sequence[Any]]:
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        yield chunk


def _pyarrow() -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            "Parquet needs pyarrow: pip install 'decision-worker[parquet]', or write .csv"
        ) from error
    return pyarrow, parquet


_WRITERS: dict[str, Callable[[Path, Columns, Iterable[Outcome]], int]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
