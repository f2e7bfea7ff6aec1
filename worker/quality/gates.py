"""Requirements that a run's measures must meet, such as ``accuracy>=0.8``."""

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass

from worker.errors import UsageError

_WRITTEN = re.compile(r"(?P<name>.+?)\s*(?P<sign><=|>=|<|>)\s*(?P<limit>[-+.0-9eE]+)")
_SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Requirement:
    """One limit on one measure.

    Attributes:
        name: ``accuracy``, ``refund.ece``, ``accuracy.low`` or ``refund.accuracy.low``.
        sign: how the measure must compare with the limit.
        limit: that it is compared with.
    """

    name: str
    sign: str
    limit: float

    def unmet(self, measured: Mapping[str, float]) -> str | None:
        """Return in words why the requirement is not met; None if it is.

        Args:
            measured: numbers by name.

        Raises:
            UsageError: nothing of that name was measured.
        """
        if self.name not in measured:
            raise UsageError(f"--require {self.name}: not measured; there is {_some(measured)}")
        value = measured[self.name]
        if _SIGNS[self.sign](value, self.limit):
            return None
        return f"{self.name} is {value:.4g}, required is {self.sign} {self.limit:g}"


def read_requirement(text: str) -> Requirement:
    """Parse a requirement.

    Raises:
        UsageError: it is not written as ``NAME>=NUMBER``.
    """
    match = _WRITTEN.fullmatch(text.strip())
    try:
        limit = float(match["limit"]) if match else None
    except ValueError:
        limit = None
    if match is None or limit is None:
        raise UsageError(f"--require {text}: write it as accuracy>=0.8")
    return Requirement(match["name"], match["sign"], limit)


def _some(measured: Mapping[str, float]) -> str:
    names = [name for name in measured if not name.endswith((".low", ".high"))]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
