"""The decision types that are read at labels, and in what they differ.

As llama.cpp's server has it (``tools/server/server-decision.cpp``).
"""

from dataclasses import dataclass
from typing import Literal

from worker.errors import CannotRun

LabelStyle = Literal["letters", "codes", "groups"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What llama.cpp does for one decision type.

    Attributes:
        name: the value of ``<arch>.decision.type``.
        labels: ``letters``: A to Z, a to z; ``codes``: A to Z and those of AA to ZZ that are one
            token; ``groups``: chosen for each question, in several spellings.
        true_first: whether a noul shows its outcome true before false.
        sorts_keys: whether the template sees all objects with their keys sorted.
        lists_questions: whether every prompt lists all questions of the ticket.
        orders: in how many orders a choice is shown.
        rates: whether a noul is read as a rating on nine labels.
    """

    name: str
    labels: LabelStyle = "codes"
    true_first: bool = False
    sorts_keys: bool = False
    lists_questions: bool = False
    orders: int = 1
    rates: bool = False


RATINGS = 9
"""From "certainly false" to "certainly true"."""

_KINDS = {
    kind.name: kind
    for kind in (
        Kind("openjev", labels="letters", true_first=True),
        Kind("lev", sorts_keys=True, orders=2, rates=True),
        Kind("nimble", lists_questions=True),
        Kind("pplx-decider"),
        Kind("lfm2-d1", labels="groups", true_first=True),
    )
}


def find_kind(name: str) -> Kind:
    """Return the facts about a decision type.

    Raises:
        CannotRun: it is not read at labels, or not known.
    """
    if name not in _KINDS:
        raise CannotRun(
            f"this is a decision model of type {name}, which is not read at labels as"
            f" {', '.join(_KINDS)} are; serve it through llama-server's /v1/systemone"
        )
    return _KINDS[name]
