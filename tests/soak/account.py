"""What became of each ticket, each counted once."""

from collections import Counter
from dataclasses import dataclass, field

from tests.soak.place import Place
from tests.soak.proxy import Seen
from tests.soak.tickets import RIGHT_END, End, Kind


@dataclass(frozen=True)
class Account:
    """The closing count; everything from *lost* on should be empty.

    Attributes:
        sent: by kind.
        ends: by end, each ticket once.
        repeats: outcomes beyond a ticket's first.
        lost: names without an end.
        ended_otherwise: names that did not end as their kind should.
        harmed: names of innocent tickets that the queue's redrive took.
        deleted_unpublished: names of tickets deleted before an outcome was accepted.
        changed: names with outcomes of more than one id.
        not_copied: names of rejected tickets without a dead letter.
        unknown: names that were never sent.
    """

    sent: Counter[Kind]
    ends: Counter[End]
    repeats: int
    lost: list[str] = field(default_factory=list)
    ended_otherwise: list[str] = field(default_factory=list)
    harmed: list[str] = field(default_factory=list)
    deleted_unpublished: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    not_copied: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def faults(self) -> dict[str, list[str]]:
        """Return what should be empty and is not."""
        found = {
            "lost": self.lost,
            "ended otherwise": self.ended_otherwise,
            "innocent, dead-lettered": self.harmed,
            "deleted unpublished": self.deleted_unpublished,
            "more than one outcome id": self.changed,
            "rejected, not dead-lettered": self.not_copied,
            "never sent": self.unknown,
        }
        return {name: names for name, names in found.items() if names}


def settle(place: Place, seen: Seen) -> Account:
    """Count."""
    redriven, copied = set(place.redriven), set(place.copies)
    ends = {name: end for name in place.sent if (end := _end(place, name, redriven))}
    kinds = {name: ticket.kind for name, ticket in place.sent.items()}
    rejected = {name for name, end in ends.items() if end is End.REJECTED}
    return Account(
        sent=Counter(kinds.values()),
        ends=Counter(ends.values()),
        repeats=sum(len(found) - 1 for found in place.outcomes.values()),
        lost=sorted(set(place.sent) - set(ends)),
        ended_otherwise=sorted(n for n, end in ends.items() if RIGHT_END[kinds[n]] != end),
        harmed=sorted(n for n in redriven if kinds.get(n, Kind.POISON) is not Kind.POISON),
        deleted_unpublished=_deleted_unpublished(place, seen),
        changed=sorted(n for n, found in place.outcomes.items() if len(set(found)) > 1),
        not_copied=sorted(rejected - copied),
        unknown=sorted((set(place.outcomes) | redriven | copied) - set(place.sent)),
    )


def _end(place: Place, name: str, redriven: set[str]) -> End | None:
    if found := place.outcomes.get(name):
        return End(found[0][0])
    return End.REDRIVEN if name in redriven else None


def _deleted_unpublished(place: Place, seen: Seen) -> list[str]:
    published: set[str] = set()
    early = set()
    for event, key in seen.events:
        name = place.names.get(key, key)
        if event == "published":
            published.add(name)
        elif name not in published:
            early.add(name)
    return sorted(early)
