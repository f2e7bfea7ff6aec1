"""The answers of a run to one question, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from worker.quality.measures import Flags, Floats, Ints, predicted
from worker.quality.run_file import Result

UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One row for each answer; cases without one are left out.

    Attributes:
        case_of: (answers,) the number of the case in the run, ascending.
        probabilities: (answers, options).
        truth: (answers,) index of the right option; -1: not known.
        label_mass: (answers,) share of the whole distribution; NaN: not told.
        top_is_label: (answers,) 1 or 0; NaN: not told.
        disposition: (answers,) accept, review or abstain; empty: not told.
        turned: (answers,) index of what was answered with the options reversed; -1: not asked.
        injected: (answers,) index of what was answered to an injected state; -1: not asked.
        told: (answers,) index of the option that the injection asked for; -1: not asked.
    """

    case_of: Ints
    probabilities: Floats
    truth: Ints
    label_mass: Floats
    top_is_label: Floats
    disposition: Any
    turned: Ints
    injected: Ints
    told: Ints

    def __len__(self) -> int:
        return len(self.case_of)

    @property
    def options(self) -> int:
        """How many options the question has."""
        return int(self.probabilities.shape[1])

    @property
    def given(self) -> Ints:
        """The index of the answered option; the first on a tie."""
        return predicted(self.probabilities)

    @property
    def confidence(self) -> Floats:
        """The probability of the answered option."""
        return np.asarray(self.probabilities.max(axis=1), dtype=np.float64)

    @property
    def labelled(self) -> Flags:
        """Whether the right option is known."""
        return np.asarray(self.truth != UNKNOWN, dtype=np.bool_)

    @property
    def right(self) -> Flags:
        """Whether the answered option is the right one."""
        return np.asarray(self.truth == self.given, dtype=np.bool_)

    def of(self, rows: Flags) -> "Table":
        """Return some of the rows."""
        return replace(self, **{one.name: getattr(self, one.name)[rows] for one in fields(self)})


def gather(key: str, options: int, results: Sequence[Result]) -> Table:
    """Return the answers to a question.

    Args:
        key: the question's id.
        options: how many it has.
        results: of all cases.
    """
    rows = [(case, one, one.answers[key]) for case, one in enumerate(results) if key in one.answers]
    turned = [one.probes.get("order", {}).get(key) for _, one, _ in rows]
    injected = [one.probes.get("injection", {}).get(key) for _, one, _ in rows]
    told = [None if probed is None else probed.told for probed in injected]
    return Table(
        case_of=_ints([case for case, _, _ in rows]),
        probabilities=np.array(
            [given.probabilities for _, _, given in rows], dtype=np.float64
        ).reshape(len(rows), options),
        truth=_ints([one.expected.get(key, UNKNOWN) for _, one, _ in rows]),
        label_mass=_floats([given.label_mass for _, _, given in rows]),
        top_is_label=_floats([given.top_is_label for _, _, given in rows]),
        disposition=np.array([given.disposition or "" for _, _, given in rows], dtype="U7"),
        turned=_ints([UNKNOWN if probed is None else probed.best for probed in turned]),
        injected=_ints([UNKNOWN if probed is None else probed.best for probed in injected]),
        told=_ints([UNKNOWN if index is None else index for index in told]),
    )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
