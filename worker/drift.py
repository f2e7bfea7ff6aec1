"""Watch how far today's answers are from those that the policy was calibrated on."""

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from worker import metrics
from worker.decision.answer import Answer, NoulAnswer
from worker.decision.drift import Reference, judgement, stability_index
from worker.decision.outcome import Outcome
from worker.decision.scores import choice_confidence
from worker.overrides import best_option

WINDOW_ANSWERS = 1_000
"""The answers of today are the last so many."""

LEAST_ANSWERS = 200
"""Of fewer, chance alone makes an index that looks like a shift."""

WHATS = ("answers", "confidence", "label_mass")


@dataclass(slots=True)
class _Watched:
    """One question: its reference, and where its last answers fell."""

    reference: Reference
    last: deque[tuple[str, int, int]] = field(default_factory=lambda: deque(maxlen=WINDOW_ANSWERS))

    def note(self, answer: Answer) -> None:
        one = self.reference
        mass = 0 if one.label_mass is None else one.label_mass.bin_of(answer.label_mass)
        self.last.append((best_option(answer), one.confidence.bin_of(_confidence(answer)), mass))

    def index(self, what: str) -> float:
        """Return the stability index of one of WHATS; NaN: not enough is known."""
        one, position = self.reference, WHATS.index(what)
        if len(self.last) < LEAST_ANSWERS:
            return math.nan
        counts = Counter(fell[position] for fell in self.last)
        if what == "answers":
            # Options that the reference does not have: together one bin that nobody expected.
            odd = sum(count for option, count in counts.items() if option not in one.answers)
            seen = [counts[option] for option in one.answers]
            return stability_index([*one.answers.values(), 0.0], [*seen, odd])
        binned = one.label_mass if what == "label_mass" else one.confidence
        if binned is None:
            return math.nan
        return stability_index(binned.shares, [counts[fell] for fell in range(len(binned.shares))])


class Drift:
    """Compares the last answers to each question of a calibrated set with the calibration.

    Args:
        references: by ``name@version`` of a set, then by question.
    """

    def __init__(self, references: Mapping[str, Mapping[str, Reference]]) -> None:
        self._watched = {
            (name, key): _Watched(reference)
            for name, questions in references.items()
            for key, reference in questions.items()
        }
        for (name, key), watched in self._watched.items():
            for what in WHATS:
                gauge = metrics.DRIFT.labels(name, key, what)
                gauge.set_function(partial(watched.index, what))

    def note(self, outcome: Outcome) -> None:
        """Add the answers of one outcome."""
        asked = outcome.provenance.question_set
        if asked is None:
            return
        for key, answer in (outcome.answers or {}).items():
            if watched := self._watched.get((f"{asked.name}@{asked.version}", key)):
                watched.note(answer)

    def told(self) -> dict[str, Any]:
        """Return indices and what they mean, by set and question, as far as enough is known."""
        found: dict[str, Any] = {}
        for (name, key), watched in self._watched.items():
            indices = {what: watched.index(what) for what in WHATS}
            known = {what: round(one, 4) for what, one in indices.items() if not math.isnan(one)}
            if known:
                judged = judgement(max(known.values()))
                found[f"{name}.{key}"] = {"judgement": judged, "psi": known}
        return found


def _confidence(answer: Answer) -> float:
    if isinstance(answer, NoulAnswer):
        return choice_confidence((answer.noul, 1.0 - answer.noul))
    return answer.confidence
