"""Compare an outcome with what the same ticket gets here, and say what differs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from worker.decision.answer import Answer, NoulAnswer
from worker.decision.derived import Contradiction
from worker.decision.outcome import Outcome, Provenance, outcome_id

STATE = "state"
"""The part that is the ticket's state, known by its share in the outcome's id."""

_NONE = "none"

# Names of the same file, and what turns probabilities into verdicts.
_OF_NO_EFFECT = ("model.name", "model.file", "policy.")


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of the provenance that is another here.

    Attributes:
        part: its place in the provenance, such as ``model.sha256``; or ``state``.
        then: as the outcome says.
        now: as it is here; None: there is none.
    """

    part: str
    then: str
    now: str | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of asking again.

    Attributes:
        outcome_id: of the outcome that was replayed.
        packed: whether calls were shared, so that answers are equal within noise only.
        distances: by question, the largest difference of a probability or label mass; None: it
            was not asked here, or with other options.
        differences: of the provenance.
        contradictions: between parts of the outcome.
        verdicts_checked: whether the policy that made the verdicts was at hand.
    """

    outcome_id: str
    packed: bool
    distances: Mapping[str, float | None]
    differences: tuple[Difference, ...]
    contradictions: tuple[Contradiction, ...] = ()
    verdicts_checked: bool = True

    @property
    def same(self) -> bool:
        """Whether the outcome is what it would be here, with its id, to the last bit."""
        equal = all(distance == 0.0 for distance in self.distances.values())
        its_own = all(one.part != STATE for one in self.differences)
        return equal and its_own and not self.contradictions


def compare(
    then: Outcome,
    now: Outcome,
    state: Any,
    *,
    contradictions: tuple[Contradiction, ...] = (),
    verdicts_checked: bool = True,
) -> Replayed:
    """Compare two outcomes of what should be one ticket.

    Args:
        then: that was published, of status ``decided``.
        now: of the same ticket, here.
        state: that *now* is about.
        contradictions: that were found in *then*.
        verdicts_checked: whether its verdicts were looked at as well.
    """
    before, after = then.answers or {}, now.answers or {}
    distances = {
        key: _distance(before[key], after[key]) if key in before and key in after else None
        for key in dict.fromkeys((*before, *after))
    }
    return Replayed(
        outcome_id=then.outcome_id,
        packed="packed" in (then.provenance.runtime.batching, now.provenance.runtime.batching),
        distances=distances,
        differences=(
            *_state(then, state),
            *_provenance(then.provenance, now.provenance),
        ),
        contradictions=(*contradictions, *_signs(before, after, distances)),
        verdicts_checked=verdicts_checked,
    )


def _signs(
    then: Mapping[str, Answer], now: Mapping[str, Answer], distances: Mapping[str, float | None]
) -> Iterator[Contradiction]:
    """What was read beside equal probabilities must be equal as well."""
    for key, distance in distances.items():
        for name in ("top_is_label", "window") if distance == 0.0 else ():
            told, here = getattr(then[key], name), getattr(now[key], name)
            if told != here:
                yield Contradiction(f"answers.{key}.{name}", str(told), str(here))


def _distance(then: Answer, now: Answer) -> float | None:
    """Return the largest difference, which is 0 for equal bits only; None: other options."""
    (names, before), (others, after) = _numbers(then), _numbers(now)
    if names != others:
        return None
    return max(abs(one - other) for one, other in zip(before, after, strict=True))


def _numbers(answer: Answer) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return what was read for an answer, and the names of its type and options."""
    if isinstance(answer, NoulAnswer):
        return (answer.type,), (answer.noul, answer.label_mass)
    numbers = (*answer.probabilities.values(), answer.label_mass)
    return (answer.type, *answer.probabilities), numbers


def _state(then: Outcome, state: Any) -> Iterator[Difference]:
    """The outcome's id holds a hash of the state, beside what the outcome itself tells."""
    here = outcome_id(
        ticket_id=then.ticket_id,
        state=state,
        questions=then.provenance.questions_sha256 or "",
        provenance=then.provenance,
    )
    if here != then.outcome_id:
        yield Difference(STATE, f"outcome id {then.outcome_id}", f"outcome id {here}")


def _provenance(then: Provenance, now: Provenance) -> Iterator[Difference]:
    """What the outcome does not tell, as those of earlier releases, is passed over."""
    here = dict(_parts(now.model_dump(mode="json", exclude_none=True)))
    # Questions that were given are told apart by their own hash.
    passed_over = _OF_NO_EFFECT if now.question_set else (*_OF_NO_EFFECT, "question_set.")
    for part, text in _parts(then.model_dump(mode="json", exclude_none=True)):
        if text and text != here.get(part) and not part.startswith(passed_over):
            yield Difference(part, text, here.get(part))
    if then.windows is None:
        for part, text in here.items():
            if part.startswith("windows."):
                yield Difference(part, _NONE, text)


def _parts(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _parts(value, f"{above}{name}.")
        else:
            shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{above}{name}", shown
