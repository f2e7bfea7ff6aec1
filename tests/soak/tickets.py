"""Tickets that should end in each way there is."""

import json
import random
from dataclasses import dataclass
from enum import StrEnum

SLOW, KILL, BREAK = "soak-slow", "soak-kill", "soak-break"
"""What a state says so that :mod:`tests.soak.worker` does it."""

CONTEXT_TOKENS, MAX_BODY_BYTES = 1024, 40_000
"""Settings of the worker that the oversize tickets pass."""

_QUESTIONS = {
    "team": {
        "type": "choice",
        "instructions": "Who handles this?",
        "criteria": {"billing": "money", "tech": None, "none": "none of these"},
    },
    "refund": {"type": "noul", "instructions": "Is money wanted back?"},
}


class Kind(StrEnum):
    """What a ticket is like."""

    GOOD = "good"
    SLOW = "slow"
    MALFORMED = "malformed"
    OVERSIZE = "oversize"
    POISON = "poison"


class End(StrEnum):
    """How a ticket ends."""

    DECIDED = "decided"
    REJECTED = "rejected"
    REDRIVEN = "dead-lettered by redrive"


RIGHT_END = {
    Kind.GOOD: End.DECIDED,
    Kind.SLOW: End.DECIDED,
    Kind.MALFORMED: End.REJECTED,
    Kind.OVERSIZE: End.REJECTED,
    Kind.POISON: End.REDRIVEN,
}


@dataclass(frozen=True)
class Sent:
    """One ticket as it is sent; *name* is in its body, whatever else is wrong with that."""

    name: str
    kind: Kind
    body: str


def make_ticket(number: int, kind: Kind, chance: random.Random) -> Sent:
    """Make a ticket of one kind."""
    name = f"soak-{number}-{kind}"
    words = chance.randint(5, 60)
    body = _body(name, f"{name} " + "please help me " * words)
    if kind is Kind.SLOW:
        body = _body(name, f"{name} {SLOW}")
    elif kind is Kind.POISON:
        body = _body(name, f"{name} {chance.choice((KILL, BREAK))}")
    elif kind is Kind.MALFORMED:
        body = chance.choice((body[:-2], json.dumps({"ticket_id": name, "questions": {}})))
    elif kind is Kind.OVERSIZE:
        size = chance.choice((2 * MAX_BODY_BYTES, MAX_BODY_BYTES // 2))
        body = _body(name, f"{name} " + "x y " * (size // 4))
    return Sent(name, kind, body)


def name_in(body: str) -> str:
    """Return the name of the ticket with this body, be it whole or not."""
    _, _, rest = body.partition('"ticket_id": "')
    return rest.partition('"')[0]


def _body(name: str, state: str) -> str:
    return json.dumps({"ticket_id": name, "state": state, "questions": _QUESTIONS})
