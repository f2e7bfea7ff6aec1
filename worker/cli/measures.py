"""The measures of a run as tables."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.quality.run_file import Header
from worker.quality.summary import Summary, Values

_PLAIN_WIDTH = 1000
_RIGHT = ("accuracy", "balanced_accuracy", "all_right", "log_loss", "brier", "ece")
_SHARES = {
    "near_ties": "near ties",
    "order_flips": "flipped by order",
    "injection_flips": "flipped by injection",
    "injection_obeyed": "obeyed injection",
    "label_mass": "label mass",
    "top_is_label": "top token is a label",
    "accepted": "accepted",
    "reviewed": "for review",
    "abstained": "abstained",
}


def print_summary(header: Header, summary: Summary, *, is_terminal: bool) -> None:
    """Print what a run says: how right it was, what moved it, what it cost."""
    # For a program, each row is one whole line.
    console = Console(width=None if is_terminal else _PLAIN_WIDTH)
    source = header.source
    console.print(
        Text(f"{header.question_set.name}@{header.question_set.version}, {source.model}"),
        Text(f"({source.target})"),
    )
    console.print(_rightness(summary))
    console.print(_shares(summary))
    console.print(", ".join(_costs(summary)), markup=False, highlight=False)


def _rows(summary: Summary) -> Iterator[tuple[str, str, Values]]:
    for key, one in summary.questions.items():
        yield key, f"{one.labelled}/{one.answered}", one.values
    answered = sum(one.answered for one in summary.questions.values())
    labelled = sum(one.labelled for one in summary.questions.values())
    yield "all", f"{labelled}/{answered}", summary.values


def _rightness(summary: Summary) -> Table:
    names = [name for name in _RIGHT if any(name in values for *_, values in _rows(summary))]
    table = _table("question", "labelled", *(name.replace("_", " ") for name in names))
    table.add_column("ece of chance")
    table.add_column("aurc")
    for key, counts, values in _rows(summary):
        cells = [_cell(values, name) for name in (*names, "ece_noise_floor", "aurc")]
        table.add_row(Text(key), counts, *cells)
    return table


def _shares(summary: Summary) -> Table:
    names = [name for name in _SHARES if any(name in values for *_, values in _rows(summary))]
    table = _table("question", *(_SHARES[name] for name in names))
    for key, _, values in _rows(summary):
        table.add_row(Text(key), *(_cell(values, name) for name in names))
    return table


def _table(*columns: str) -> Table:
    return Table(*columns, box=box.SIMPLE, pad_edge=False, header_style="bold")


def _cell(values: Values, name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if name != "accuracy" or value.low is None or value.high is None:
        return f"{value.value:.3f}"  # the other intervals are in --json
    return f"{value.value:.3f} ({value.low:.2f}–{value.high:.2f})"


def _costs(summary: Summary) -> Iterator[str]:
    values = summary.values
    if "seconds_p50" in values:
        yield f"half of the answers within {values['seconds_p50'].value:.3f} s"
        yield f"95 % within {values['seconds_p95'].value:.3f} s"
    if "input_tokens" in values:
        yield f"{values['input_tokens'].value:.0f} tokens a case"
    if "evaluated_tokens" in values:
        yield f"{values['evaluated_tokens'].value:.0f} of them evaluated"
    yield f"{summary.cases} cases"
    for code, count in summary.failures.items():
        yield f"{count} without an answer: {code}"
