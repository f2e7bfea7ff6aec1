"""Two runs on the same cases: what changed from the one to the other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from worker.errors import UsageError
from worker.quality.answered import Table, gather
from worker.quality.bootstrap import Draw, intervals
from worker.quality.measures import Flags, Floats, Ints, predicted
from worker.quality.run_file import Header, Result


@dataclass(frozen=True, slots=True)
class Flip:
    """One answer that changed.

    Attributes:
        case: its id.
        question: its id.
        before: the option that was answered; and
        before_probability: how likely it was.
        after: the option that is answered now; and
        after_probability: how likely it is.
        expected: the right one, where it is known.
    """

    case: str
    question: str
    before: str
    before_probability: float
    after: str
    after_probability: float
    expected: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """What changed in the answers to one question, or to all.

    Attributes:
        answers: that both runs have.
        flips: of them that changed.
        mean_shift: mean over answers of the largest change of any option's probability.
        max_shift: the largest of those.
        labelled: answers whose right one is known.
        accuracy_before: share of those that was right; None: none is known.
        accuracy_after: the same now.
        accuracy_change: the difference, with
        accuracy_change_low: the lower end of its 95 % interval, and
        accuracy_change_high: the upper end.
        broken: answers that were right and are wrong now.
        fixed: answers that were wrong and are right now.
        p_value: how likely so uneven numbers of broken and fixed are by chance alone.
    """

    answers: int
    flips: int
    mean_shift: float
    max_shift: float
    labelled: int
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    accuracy_change: float | None = None
    accuracy_change_low: float | None = None
    accuracy_change_high: float | None = None
    broken: int = 0
    fixed: int = 0
    p_value: float = 1.0

    @property
    def flipped(self) -> float:
        """The share of answers that changed."""
        return self.flips / self.answers


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one run to another.

    Attributes:
        cases: that both runs have answers to.
        left_out: cases that one run has only, whose state changed, or that have no answers.
        not_compared: questions that one run has only, or whose options have other names.
        all: over all questions.
        questions: by id.
        seconds_before: half of the answers came within; None: not told.
        seconds_after: the same now.
        flips: every answer that changed, by case.
    """

    cases: int
    left_out: int
    not_compared: tuple[str, ...]
    all: Change
    questions: dict[str, Change]
    seconds_before: float | None
    seconds_after: float | None
    flips: list[Flip]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Both answers of each case to one question, options in the order of the later run."""

    before: Floats
    after: Table

    @property
    def given_before(self) -> Ints:
        return predicted(self.before)

    @property
    def shifts(self) -> Floats:
        changes = np.abs(self.after.probabilities - self.before)
        return np.asarray(changes.max(axis=1), dtype=np.float64)

    @property
    def flipped(self) -> Flags:
        return np.asarray(self.given_before != self.after.given, dtype=np.bool_)


Run = tuple[Header, Sequence[Result]]


def compare(before: Run, after: Run, draw: Draw | None = None) -> Comparison:
    """Compare two runs; right answers are those that the later one knows.

    Raises:
        UsageError: they have no case or no question in common.
    """
    shared = _shared(before[1], after[1])
    pairs = {
        key: _pairs(key, before[0], after[0], shared)
        for key in after[0].questions
        if _same_options(key, before[0], after[0])
    }
    if not shared or not any(len(one.after) for one in pairs.values()):
        raise UsageError("the runs have no answers to the same cases and questions")
    keys = {*before[0].questions, *after[0].questions}
    draw = draw or Draw()
    return Comparison(
        cases=len(shared),
        left_out=len({one.case for run in (before, after) for one in run[1]}) - len(shared),
        not_compared=tuple(sorted(keys - pairs.keys())),
        all=_change(list(pairs.values()), draw),
        questions={key: _change([one], draw) for key, one in pairs.items() if len(one.after)},
        seconds_before=_half([one for one, _ in shared]),
        seconds_after=_half([one for _, one in shared]),
        flips=_flips(pairs, after[0], [one.case for _, one in shared]),
    )


def mcnemar(broken: int, fixed: int) -> float:
    """Return how likely numbers so uneven are where either way is equally likely.

    The exact test of McNemar, "Note on the sampling error of the difference between correlated
    proportions or percentages", Psychometrika 12, 1947: a two-sided binomial test of one of the
    numbers in their sum (``scipy.stats.binomtest``).
    """
    changed = broken + fixed
    return float(stats.binomtest(broken, changed).pvalue) if changed else 1.0


def _shared(before: Sequence[Result], after: Sequence[Result]) -> list[tuple[Result, Result]]:
    """Return the results of cases that both runs have answers to, about the same state."""
    known = {one.case: one for one in before if one.answers}
    pairs = [(known.get(one.case), one) for one in after if one.answers]
    return [
        (one, other)
        for one, other in pairs
        if one is not None and one.state_sha256 == other.state_sha256
    ]


def _same_options(key: str, before: Header, after: Header) -> bool:
    """Return whether a question has the same options in both runs, in whatever order."""
    if key not in before.questions:
        return False
    one, other = before.questions[key], after.questions[key]
    return one.type == other.type and set(one.options) == set(other.options)


def _pairs(
    key: str, before: Header, after: Header, shared: Sequence[tuple[Result, Result]]
) -> _Pairs:
    names, places = after.questions[key].options, before.questions[key].options
    one = gather(key, len(names), [result for result, _ in shared])
    other = gather(key, len(names), [result for _, result in shared])
    both = np.intersect1d(one.case_of, other.case_of)
    one, other = (table.of(np.isin(table.case_of, both)) for table in (one, other))
    return _Pairs(one.probabilities[:, [places.index(name) for name in names]], other)


def _change(pairs: Sequence[_Pairs], draw: Draw) -> Change:
    flipped = _joined([one.flipped for one in pairs])
    shifts = _joined([one.shifts for one in pairs])
    known = [one.after.labelled for one in pairs]
    change = Change(
        answers=len(flipped),
        flips=int(flipped.sum()),
        mean_shift=float(shifts.mean()),
        max_shift=float(shifts.max()),
        labelled=sum(int(rows.sum()) for rows in known),
    )
    if not change.labelled:
        return change
    each = list(zip(pairs, known, strict=True))
    case_of = _joined([one.after.case_of[rows] for one, rows in each])
    # Right is what the later run says is right.
    was = _joined([(one.given_before == one.after.truth)[rows] for one, rows in each])
    now = _joined([one.after.right[rows] for one, rows in each])
    order = np.argsort(case_of, kind="stable")
    gains = (now.astype(np.float64) - was)[order]
    ends = intervals(case_of[order], lambda drawn: {"gain": float(gains[drawn].mean())}, draw)
    broken, fixed = int((was & ~now).sum()), int((now & ~was).sum())
    return replace(
        change,
        accuracy_before=float(was.mean()),
        accuracy_after=float(now.mean()),
        accuracy_change=float(gains.mean()),
        accuracy_change_low=ends["gain"][0],
        accuracy_change_high=ends["gain"][1],
        broken=broken,
        fixed=fixed,
        p_value=mcnemar(broken, fixed),
    )


def _flips(pairs: dict[str, _Pairs], after: Header, cases: Sequence[str]) -> list[Flip]:
    found = []
    for key, one in pairs.items():
        names = after.questions[key].options
        for row in np.flatnonzero(one.flipped):
            was, now = int(one.given_before[row]), int(one.after.given[row])
            truth = int(one.after.truth[row])
            found.append(
                Flip(
                    cases[int(one.after.case_of[row])],
                    key,
                    names[was],
                    float(one.before[row, was]),
                    names[now],
                    float(one.after.probabilities[row, now]),
                    names[truth] if truth >= 0 else None,
                )
            )
    return sorted(found, key=lambda flip: flip.case)


def _half(results: Sequence[Result]) -> float | None:
    known = [one.seconds for one in results if one.seconds is not None]
    return float(np.percentile(known, 50)) if known else None


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(list(parts))
