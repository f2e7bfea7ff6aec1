"""What a running worker says of itself, and how fast its counters go. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Figures:
    """One look at ``/metrics`` and ``/health``.

    Attributes:
        at_seconds: when, on a clock that only its differences mean anything of.
        samples: value by the sample's name and labels.
        health: the body of ``/health``.
    """

    at_seconds: float
    samples: Mapping[tuple[str, Labels], float]
    health: Mapping[str, Any]

    def sum(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; 0 without any."""
        return sum(value for _, value in self._matching(name, labels))

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return a metric's sums by the values of one label."""
        found: dict[str, float] = {}
        for labels, value in self._matching(name, {}):
            key = dict(labels).get(label, "")
            found[key] = found.get(key, 0.0) + value
        return found

    def _matching(self, name: str, labels: Mapping[str, str]) -> Iterator[tuple[Labels, float]]:
        wanted = labels.items()
        for (other, found), value in self.samples.items():
            if other == name and wanted <= dict(found).items():
                yield found, value


def read_figures(exposition: str, health: Mapping[str, Any], at_seconds: float) -> Figures:
    """Read the two answers of a worker.

    Args:
        exposition: Prometheus' text format.
        health: the body of ``/health``.
        at_seconds: when they were asked for.

    Raises:
        ValueError: the text is not a worker's.
    """
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }
    if not any(name.startswith("decision_") for name, _ in samples):
        raise ValueError("/metrics has no figures of a worker")
    return Figures(at_seconds, samples, health)


@dataclass(frozen=True, slots=True)
class Interval:
    """Two looks, one after the other.

    Attributes:
        before: the earlier one.
        now: the later one.
    """

    before: Figures
    now: Figures

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.now.at_seconds - self.before.at_seconds

    def gained(self, name: str, **labels: str) -> float:
        """Return by how much a counter grew; one that began anew counts from 0."""
        before, now = self.before.sum(name, **labels), self.now.sum(name, **labels)
        return now - before if now >= before else now

    def rate(self, name: str, **labels: str) -> float:
        """Return how much a counter grew in each second."""
        return self.gained(name, **labels) / self.seconds if self.seconds > 0 else 0.0

    def mean(self, name: str, **labels: str) -> float | None:
        """Return the mean of what a histogram observed; None when it was nothing."""
        count = self.gained(f"{name}_count", **labels)
        return self.gained(f"{name}_sum", **labels) / count if count else None
