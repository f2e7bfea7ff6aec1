"""Golden tickets: files of a ticket, how it is asked, and the outcome that it had.

A file's ``model`` is ``plain``, ``chat`` or a decision type; the models are seeded and unrounded.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "tickets"
COMMAND: Final = "python -m tests.golden"
TOLERANCE: Final = 1e-5


@dataclass(frozen=True, slots=True)
class Case:
    """One file.

    Attributes:
        path: of the file.
        tree: what it holds.
    """

    path: Path
    tree: dict[str, Any]

    @property
    def outcome(self) -> dict[str, Any]:
        """The outcome that the ticket had."""
        return self.tree.get("outcome", {})


def read_cases() -> list[Case]:
    """Read all files, in the order of their names."""
    return [Case(path, json.loads(path.read_text())) for path in sorted(FOLDER.glob("*.json"))]


def write_case(case: Case, outcome: dict[str, Any]) -> None:
    """Write a file with another outcome."""
    tree = {**case.tree, "outcome": outcome}
    case.path.write_text(json.dumps(tree, ensure_ascii=False, indent=1) + "\n")


def differences(expected: Any, actual: Any, place: str = "outcome") -> Iterator[str]:
    """Yield each place where two trees differ: numbers by more than the tolerance, order counts."""
    match expected, actual:
        case dict(), dict() if list(expected) == list(actual):
            for name in expected:
                yield from differences(expected[name], actual[name], f"{place}.{name}")
        case dict(), dict():
            yield f"{place}: had {', '.join(expected)}, has {', '.join(actual)}"
        case list(), list() if len(expected) == len(actual):
            for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
                yield from differences(one, other, f"{place}.{number}")
        case float(), float():
            if abs(expected - actual) > TOLERANCE:
                yield f"{place}: was {expected}, is {actual}"
        case _:
            if expected != actual:
                yield f"{place}: was {expected}, is {actual}"
