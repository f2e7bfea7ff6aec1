"""Tables of outcomes: the columns that the README names, in CSV and Parquet alike."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tests.factories import (
    make_choice,
    make_noul,
    make_outcome,
    make_score,
    make_scored,
)
from tests.unit.desk.test_collect import make_outcome_text
from worker.decision.outcome import Fault
from worker.desk.outcomes import open_outcomes
from worker.desk.rows import columns_of
from worker.desk.tables import check_format, collected_in, write_table
from worker.errors import UsageError

ANSWERS = {
    "desk": make_scored(make_choice(), 0.75, 0.25),
    "heat": make_scored(make_score(), 0.25, 0.5, 0.25),
    "refund": make_scored(make_noul(), 0.1, 0.9),
}


def decided(**fields: Any) -> dict[str, Any]:
    """Return an outcome as the worker publishes it."""
    return make_outcome(**{"answers": ANSWERS} | fields).as_dict()


def rejected() -> dict[str, Any]:
    return make_outcome(
        outcome_id="2" * 32,
        ticket_id="t-2",
        status="rejected",
        answers=None,
        disposition=None,
        error=Fault(code="too_large", message="has 9 bytes", where="state"),
    ).as_dict()


def test_a_decided_ticket_is_a_row() -> None:
    """Each answer's value and probability; a noul's are both the probability of true."""
    outcome = decided(metadata={"batch": "monday"})
    row = columns_of([outcome]).row(outcome)
    desk, heat, refund = (outcome["answers"][key] for key in ("desk", "heat", "refund"))

    assert {
        "ticket_id": "t-1",
        "outcome_id": outcome["outcome_id"],
        "status": "decided",
        "disposition": "review",
        "error_code": None,
        "error_where": None,
        "error_message": None,
        "model": "tiny",
        "model_sha256": "ab" * 32,
        "question_set": None,
        "answer.desk": desk["choice"],
        "probability.desk": desk["probabilities"][desk["choice"]],
        "confidence.desk": desk["confidence"],
        "disposition.desk": "review",
        "answer.heat": heat["score"],
        "probability.heat": max(heat["probabilities"].values()),
        "confidence.heat": heat["confidence"],
        "disposition.heat": "review",
        "answer.refund": refund["noul"],
        "probability.refund": refund["noul"],
        "confidence.refund": None,
        "disposition.refund": "review",
        "metadata.batch": "monday",
    } == row


def test_all_rows_have_all_columns() -> None:
    """Whatever was asked of which ticket; a question whose type changed is text."""
    one = decided(answers={"q": ANSWERS["refund"]}, metadata={"a": "1"})
    other = decided(answers={"q": ANSWERS["desk"], "r": ANSWERS["heat"]}, outcome_id="1" * 32)
    outcomes = [one, rejected(), other]
    columns = columns_of(outcomes)
    rows = [columns.row(outcome) for outcome in outcomes]

    assert [columns.names()] * 3 == [list(row) for row in rows]
    assert str(one["answers"]["q"]["noul"]) == rows[0]["answer.q"]
    assert ("too_large", "state", "has 9 bytes", None) == (
        rows[1]["error_code"],
        rows[1]["error_where"],
        rows[1]["error_message"],
        rows[1]["answer.q"],
    )
    assert {"answer.r", "confidence.q", "confidence.r", "probability.q", "probability.r"} == (
        columns.numbers()
    )


def collected(output: Path, *outcomes: dict[str, Any]) -> list[dict[str, Any]]:
    with open_outcomes(collected_in(output)) as file:
        file.add(outcomes)
    assert len(outcomes) == write_table(output)
    return list(outcomes)


def test_csv_and_parquet_say_the_same(tmp_path: Path) -> None:
    """Numbers to their last bit, line breaks and quotes in what people wrote."""
    name = 'a "b",\nc;für'
    for output in (tmp_path / "o.csv", tmp_path / "o.parquet"):
        outcomes = collected(output, decided(metadata={"name": name}), rejected())
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = parquet.read_table(tmp_path / "o.parquet").to_pylist()
    columns = columns_of(outcomes)

    assert [columns.row(outcome) for outcome in outcomes] == table
    assert [
        {key: "" if cell is None else str(cell) for key, cell in row.items()} for row in table
    ] == rows
    assert name == rows[0]["metadata.name"]


def test_nothing_else_is_left(tmp_path: Path) -> None:
    """A table is written beside and moved: what is there is whole."""
    output = tmp_path / "o.csv"
    with open_outcomes(collected_in(output)) as file:
        file.add([json.loads(make_outcome_text("a"))])
    write_table(output)

    assert ["o.csv", "o.csv.partial.jsonl"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_table_without_outcomes_has_its_fixed_columns(tmp_path: Path) -> None:
    """Nothing came: that is a table too."""
    collected(tmp_path / "o.csv")

    assert "ticket_id,outcome_id,status" == (tmp_path / "o.csv").read_text()[:27]


def test_jsonl_is_collected_in_place(tmp_path: Path) -> None:
    """It is no table: what is written there is what was published."""
    output = tmp_path / "o.jsonl"
    with open_outcomes(collected_in(output)) as file:
        file.add([json.loads(make_outcome_text("a"))])

    assert json.loads(make_outcome_text("a")) == json.loads(output.read_text())


def test_an_unknown_format_is_refused() -> None:
    """Before anything is received."""
    with pytest.raises(UsageError, match=r"must end in \.jsonl, \.csv or \.parquet, not o\.xlsx"):
        check_format(Path("o.xlsx"))
    check_format(Path("o.csv"))


def test_parquet_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install, before anything is received."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'decision-worker\[parquet\]'"):
        check_format(Path("o.parquet"))
