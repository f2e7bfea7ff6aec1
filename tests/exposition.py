"""Rules for metrics in Prometheus' text format, as `promtool check metrics` applies them.

Source: https://prometheus.io/docs/practices/naming/ and the rules that promtool tells of in its
messages; written anew, so that no Go program is needed.
"""

import re
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

_COUNTER = re.compile(r"^# TYPE (\S+) counter$", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
_RESERVED = {"le": "histogram", "quantile": "summary"}
_OTHER_UNITS = {
    "amp", "celsius", "days", "degrees", "fahrenheit", "gibibytes", "gigabytes", "hours", "kb",
    "kib", "kibibytes", "kilobytes", "mb", "mebibytes", "megabytes", "mib", "microseconds",
    "milliseconds", "minutes", "ms", "nanoseconds", "ns", "percent", "percentage", "sec", "secs",
    "us", "weeks",
}  # fmt: skip
"""Units that are not base units, or are shortened."""


def faults(text: str) -> list[str]:
    """Return what is wrong with an exposition, in words; empty when nothing is.

    Raises:
        ValueError: it cannot be parsed at all.
    """
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    twice = {f"{name}: declared twice" for name in names if names.count(name) > 1}
    # The parser mends this one.
    bare = [name for name in _COUNTER.findall(text) if not name.endswith("_total")]
    return [*sorted(twice), *(f"{name}: a counter ends in _total" for name in bare)] + [
        f"{family.name}: {fault}" for family in families for fault in _faults(family)
    ]


def _faults(family: Metric) -> Iterator[str]:
    words = family.name.split("_")
    if not family.documentation:
        yield "no help text"
    if family.type in ("unknown", "untyped"):
        yield "no type"
    if not _NAME.fullmatch(family.name):
        yield "not in lower case, with single underscores"
    if _TYPES & set(words):
        yield "names its type"
    if shortened := _OTHER_UNITS & set(words):
        yield f"{shortened.pop()} is no base unit"
    yield from _suffix_faults(family)
    yield from _label_faults(family)


def _suffix_faults(family: Metric) -> Iterator[str]:
    if family.type != "counter" and family.name.endswith("_total"):
        yield "only a counter ends in _total"
    if family.name.endswith(("_count", "_sum", "_bucket")):
        yield "ends like a part of a histogram"


def _label_faults(family: Metric) -> Iterator[str]:
    for sample in family.samples:
        for label in sample.labels:
            if label in _RESERVED and family.type != _RESERVED[label]:
                yield f"label {label} belongs to a {_RESERVED[label]}"
            if not _NAME.fullmatch(label):
                yield f"label {label} is not in lower case, with single underscores"
