"""Outcomes as rows of a table. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Cell = str | float | None

FIXED = (
    "ticket_id",
    "outcome_id",
    "status",
    "disposition",
    "error_code",
    "error_where",
    "error_message",
    "model",
    "model_sha256",
    "question_set",
)
"""Columns that every table has, in front."""

_PER_QUESTION = ("answer", "probability", "confidence", "disposition")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one table.

    Attributes:
        questions: ids in the order in which they first came, with the type of their answers.
        metadata: names in the order in which they first came.
    """

    questions: Mapping[str, str]
    metadata: tuple[str, ...]

    def names(self) -> list[str]:
        """Return all columns, in order."""
        return [
            *FIXED,
            *(f"{part}.{key}" for key in self.questions for part in _PER_QUESTION),
            *(f"metadata.{name}" for name in self.metadata),
        ]

    def numbers(self) -> set[str]:
        """Return the columns that hold numbers only; all others hold text."""
        answers = {f"answer.{key}" for key, kind in self.questions.items() if kind == "number"}
        parts = {f"{part}.{key}" for key in self.questions for part in _PER_QUESTION[1:3]}
        return answers | parts

    def row(self, outcome: Mapping[str, Any]) -> dict[str, Cell]:
        """Return one outcome as a row; what it does not have is None."""
        model = _inside(outcome, "provenance", "model")
        error = _inside(outcome, "error")
        row: dict[str, Cell] = dict.fromkeys(self.names())
        row |= {name: outcome.get(name) for name in FIXED[:4]}
        row |= {f"error_{name}": error.get(name) for name in ("code", "where", "message")}
        row["model"], row["model_sha256"] = model.get("name"), model.get("sha256")
        row["question_set"] = _inside(outcome, "provenance", "question_set").get("name")
        for key, answer in _inside(outcome, "answers").items():
            cells = _answer_cells(answer)
            if self.questions[key] == "text" and cells["answer"] is not None:
                cells["answer"] = str(cells["answer"])
            row |= {f"{part}.{key}": cell for part, cell in cells.items()}
        row |= {f"metadata.{name}": text for name, text in _inside(outcome, "metadata").items()}
        return row


def columns_of(outcomes: Iterable[Mapping[str, Any]]) -> Columns:
    """Return the columns that *outcomes* need."""
    questions: dict[str, str] = {}
    metadata: dict[str, None] = {}
    for outcome in outcomes:
        for key, answer in _inside(outcome, "answers").items():
            if answer.get("type") == "choice":
                questions[key] = "text"
            else:
                questions.setdefault(key, "number")
        metadata.update(dict.fromkeys(_inside(outcome, "metadata")))
    return Columns(questions, tuple(metadata))


def _answer_cells(answer: Mapping[str, Any]) -> dict[str, Cell]:
    kind = answer.get("type")
    value = answer.get({"choice": "choice", "score": "score"}.get(str(kind), "noul"))
    probabilities = answer.get("probabilities") or {}
    return {
        "answer": value,
        "probability": max(probabilities.values()) if probabilities else value,
        "confidence": answer.get("confidence"),
        "disposition": _inside(answer, "verdict").get("disposition"),
    }


def _inside(tree: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        tree = tree.get(name) or {}
    return tree
