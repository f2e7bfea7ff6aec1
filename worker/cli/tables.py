"""What people see on a terminal: answers as bars, outcomes as a table."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from worker.decision.answer import Answer, ChoiceAnswer, NoulAnswer
from worker.decision.outcome import Outcome

_BAR_CELLS = 24
_BAR = "█"
_SHORT_CHARACTERS = 24


def answer_table(outcome: Outcome) -> Table:
    """Return one row for each option of each answer, with a bar for its probability."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for key, answer in (outcome.answers or {}).items():
        summary = "" if isinstance(answer, NoulAnswer) else f"confidence {answer.confidence:.2f}"
        table.add_row(Text(key, style="bold"), Text(_value(answer), style="bold"), summary)
        for name, probability in _distribution(answer).items():
            bar = _BAR * round(probability * _BAR_CELLS)
            table.add_row(Text(f"  {_short(name)}"), Text(bar, style="cyan"), f"{probability:.3f}")
    return table


def outcome_table(outcomes: Iterable[Mapping[str, Any]], questions: Iterable[str]) -> Table:
    """Return one row for each outcome, with each answer's value and confidence.

    Args:
        outcomes: as published.
        questions: ids, one column each.
    """
    columns, rows = list(questions), list(outcomes)
    dispositions = Counter(row.get("disposition", row["status"]) for row in rows)
    table = Table(
        title="Outcomes: value (confidence)",
        caption=", ".join(f"{word}: {count}" for word, count in dispositions.items()),
        title_justify="left",
        caption_justify="left",
        header_style="bold",
        box=box.SIMPLE,
        pad_edge=False,
    )
    for name in ("ticket", "lang", *columns):
        table.add_column(name, no_wrap=True)
    for row in rows:
        answers = row.get("answers", {})
        table.add_row(
            escape(row["ticket_id"]),
            escape(row.get("metadata", {}).get("language", "")),
            *(_cell(answers[key]) if key in answers else "" for key in columns),
        )
    return table


def _cell(answer: Mapping[str, Any]) -> str:
    if answer["type"] == "noul":
        return f"{answer['noul']:.2f}"
    if answer["type"] == "score":
        return f"{answer['score']:.2f} [dim]({answer['confidence']:.2f})[/dim]"
    return f"{escape(_short(answer['choice']))} [dim]({answer['confidence']:.2f})[/dim]"


def _value(answer: Answer) -> str:
    if isinstance(answer, ChoiceAnswer):
        return _short(answer.choice)
    return f"{answer.noul if isinstance(answer, NoulAnswer) else answer.score:.2f}"


def _distribution(answer: Answer) -> dict[str, float]:
    if isinstance(answer, NoulAnswer):
        return {"true": answer.noul, "false": 1 - answer.noul}
    if isinstance(answer, ChoiceAnswer):
        return answer.probabilities
    return {
        f"{level} {_short(str(answer.legend[level]))}": probability
        for level, probability in answer.probabilities.items()
    }


def _short(text: str) -> str:
    return text if len(text) <= _SHORT_CHARACTERS else text[: _SHORT_CHARACTERS - 1] + "…"
