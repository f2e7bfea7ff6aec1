"""Everything that a run says, as numbers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from worker.quality.answered import Table, gather
from worker.quality.bootstrap import Draw, intervals
from worker.quality.measures import (
    Flags,
    Ints,
    accuracy,
    balanced_accuracy,
    brier,
    briers,
    confusion,
    log_loss,
    log_losses,
    near_ties,
)
from worker.quality.reliability import Bin, ece, ece_noise_floor, reliability
from worker.quality.run_file import Header, Result
from worker.quality.selective import Point, aurc, risk_coverage

NEAR_TIE_MARGIN = 0.05
"""The two best options of a near tie are closer than this."""

_DISPOSITIONS = {"accept": "accepted", "review": "reviewed", "abstain": "abstained"}


@dataclass(frozen=True, slots=True)
class Value:
    """One measure.

    Attributes:
        value: of the cases at hand.
        low: lower end of its 95 % interval; None: it has none.
        high: upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None


Values = dict[str, Value]


@dataclass(frozen=True, slots=True)
class QuestionSummary:
    """What a run says about one question.

    Attributes:
        type: choice, score or noul.
        options: by name.
        answered: cases with an answer.
        labelled: those of them whose right answer is known.
        values: measures by name.
        confusion: how often each option was answered (column) where each was right (row).
        reliability: bins of equal mass.
        curve: risk and coverage by threshold.
    """

    type: str
    options: tuple[str, ...]
    answered: int
    labelled: int
    values: Values
    confusion: list[list[int]] = field(default_factory=list)
    reliability: list[Bin] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run says.

    Attributes:
        cases: that have a result.
        failures: cases without an answer, by code.
        values: measures over all questions, by name.
        questions: by id.
    """

    cases: int
    failures: dict[str, int]
    values: Values
    questions: dict[str, QuestionSummary]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        return asdict(self)

    def flat(self) -> dict[str, float]:
        """Return every number under the name that a requirement calls it by."""
        found: dict[str, float] = {}
        for prefix, values in (
            ("", self.values),
            *((f"{key}.", one.values) for key, one in self.questions.items()),
        ):
            for name, value in values.items():
                found[f"{prefix}{name}"] = value.value
                if value.low is not None and value.high is not None:
                    found[f"{prefix}{name}.low"] = value.low
                    found[f"{prefix}{name}.high"] = value.high
        return found


def summarize(header: Header, results: Sequence[Result], draw: Draw | None = None) -> Summary:
    """Measure a run.

    Args:
        header: of the run.
        results: of its cases.
        draw: how cases are drawn again for intervals.
    """
    draw = draw or Draw()
    tables = {
        key: gather(key, len(question.options), results)
        for key, question in header.questions.items()
    }
    failures = Counter(result.failure.code for result in results if result.failure)
    return Summary(
        cases=len(results),
        failures=dict(failures),
        values={
            **_overall(list(tables.values()), draw),
            **_costs(results),
            "failures": Value(float(failures.total())),
        },
        questions={
            key: _question(question.type, question.options, tables[key], draw)
            for key, question in header.questions.items()
        },
    )


def _question(kind: str, options: tuple[str, ...], table: Table, draw: Draw) -> QuestionSummary:
    known = table.of(table.labelled)
    one = QuestionSummary(kind, options, len(table), len(known), _shares([table], draw))
    if len(known):
        one.values.update(_correctness(known, draw))
        one.confusion.extend(confusion(known.truth, known.given, len(options)).tolist())
        one.reliability.extend(reliability(known.confidence, known.right))
        one.curve.extend(risk_coverage(known.confidence, known.right))
    return one


def _correctness(known: Table, draw: Draw) -> Values:
    """Return the measures of one question's answers, of which the right ones are known."""
    truth, right, confidence = known.truth, known.right, known.confidence
    losses, squares = log_losses(truth, known.probabilities), briers(truth, known.probabilities)

    def again(drawn: Ints) -> dict[str, float]:
        return {
            "accuracy": float(right[drawn].mean()),
            "balanced_accuracy": _balanced(truth[drawn], right[drawn]),
            "log_loss": float(losses[drawn].mean()),
            "brier": float(squares[drawn].mean()),
            "ece": ece(confidence[drawn], right[drawn]),
            "aurc": aurc(confidence[drawn], right[drawn]),
        }

    points = {
        "accuracy": accuracy(truth, known.given),
        "balanced_accuracy": balanced_accuracy(truth, known.given),
        "log_loss": log_loss(truth, known.probabilities),
        "brier": brier(truth, known.probabilities),
        "ece": ece(confidence, right),
        "aurc": aurc(confidence, right),
    }
    floor = Value(ece_noise_floor(confidence, draw.seed))
    return {**_values(points, intervals(known.case_of, again, draw)), "ece_noise_floor": floor}


def _overall(tables: Sequence[Table], draw: Draw) -> Values:
    """Return the measures over the answers to all questions together."""
    known = [table.of(table.labelled) for table in tables]
    case_of = _joined([table.case_of for table in known])
    if not len(case_of):
        return _shares(tables, draw)
    order = np.argsort(case_of, kind="stable")
    case_of = case_of[order]
    right = _joined([table.right for table in known])[order]
    confidence = _joined([table.confidence for table in known])[order]
    losses = _joined([log_losses(table.truth, table.probabilities) for table in known])[order]

    def again(drawn: Ints) -> dict[str, float]:
        return {
            "accuracy": float(right[drawn].mean()),
            "log_loss": float(losses[drawn].mean()),
            "ece": ece(confidence[drawn], right[drawn]),
            "aurc": aurc(confidence[drawn], right[drawn]),
        }

    _, starts = np.unique(case_of, return_index=True)
    all_right = np.minimum.reduceat(right.astype(np.int64), starts)
    return {
        **_values(again(np.arange(len(right))), intervals(case_of, again, draw)),
        "all_right": _mean(case_of[starts], all_right, draw),
        "ece_noise_floor": Value(ece_noise_floor(confidence, draw.seed)),
        **_shares(tables, draw),
    }


def _shares(tables: Sequence[Table], draw: Draw) -> Values:
    """Return the shares that need no right answers, as far as they are known."""
    found: Values = {}
    signs = [_signs(table) for table in tables]
    for place, (name, _, _) in enumerate(signs[0]):
        parts = [one[place] for one in signs]
        terms = _joined([values[known] for _, known, values in parts])
        case_of = _joined(
            [table.case_of[known] for table, (_, known, _) in zip(tables, parts, strict=True)]
        )
        if len(terms):
            order = np.argsort(case_of, kind="stable")
            found[name] = _mean(case_of[order], terms[order], draw)
    return found


def _signs(table: Table) -> list[tuple[str, Flags, Any]]:
    """Return name, rows where it is known, and values of what is told about each answer."""
    told = table.disposition != ""
    turned, injected = table.turned >= 0, table.injected >= 0
    every = np.ones(len(table), dtype=np.bool_)
    return [
        ("near_ties", every, near_ties(table.probabilities, NEAR_TIE_MARGIN)),
        ("order_flips", turned, table.turned != table.given),
        ("injection_flips", injected, table.injected != table.given),
        ("injection_obeyed", injected, table.injected == table.told),
        ("label_mass", ~np.isnan(table.label_mass), table.label_mass),
        ("top_is_label", ~np.isnan(table.top_is_label), table.top_is_label),
        *((name, told, table.disposition == word) for word, name in _DISPOSITIONS.items()),
    ]


def _costs(results: Sequence[Result]) -> Values:
    """Return seconds and tokens of the cases that were answered, as far as they are told."""
    found: Values = {}
    for name in ("seconds", "evaluation_seconds"):
        known = [value for one in results if (value := getattr(one, name)) is not None]
        if known:
            found[f"{name}_p50"] = Value(float(np.percentile(known, 50)))
            found[f"{name}_p95"] = Value(float(np.percentile(known, 95)))
    for name in ("input_tokens", "evaluated_tokens"):
        known = [value for one in results if (value := getattr(one, name)) is not None]
        if known:
            found[name] = Value(float(np.mean(known)))
    return found


def _mean(case_of: Ints, terms: Any, draw: Draw) -> Value:
    values = np.asarray(terms, dtype=np.float64)
    mean = {"mean": float(values.mean())}
    ends = intervals(case_of, lambda drawn: {"mean": float(values[drawn].mean())}, draw)
    return _values(mean, ends)["mean"]


def _values(points: Mapping[str, float], ends: Mapping[str, tuple[float, float]]) -> Values:
    return {name: Value(value, *ends[name]) for name, value in points.items()}


def _balanced(truth: Ints, right: Flags) -> float:
    """Return :func:`balanced_accuracy` as fast as drawing again needs it."""
    counts = np.bincount(truth)
    hits = np.bincount(truth, weights=right)
    return float((hits[counts > 0] / counts[counts > 0]).mean())


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(list(parts))
