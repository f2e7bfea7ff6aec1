"""The record of what each version of each question set asked, kept beside their files. Pure."""

import re
from collections.abc import Iterable, Mapping

from worker.decision.question_set import QuestionSet
from worker.errors import UsageError
from worker.quality.lint import Finding

RECORD_NAME = "versions.lock"
"""The file, in the folder of the sets."""

_LINE = re.compile(r"(?P<key>[A-Za-z0-9_.-]+@[1-9][0-9]*) (?P<sha256>[0-9a-f]{64})")
_HEAD = "# name@version and SHA-256 of every question set that was ever used here; see `check`."


def read_record(text: str) -> dict[str, str]:
    """Return the hashes by ``name@version`` that a record holds.

    Raises:
        UsageError: a line is neither a comment nor a version and its hash.
    """
    record: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise UsageError(f"{RECORD_NAME}: line {number} is not `name@version sha256`")
        record[match["key"]] = match["sha256"]
    return record


def write_record(record: Mapping[str, str]) -> str:
    """Return a record's text, one line for each version."""
    return "".join(f"{line}\n" for line in (_HEAD, *sorted(map(" ".join, record.items()))))


def check_versions(sets: Iterable[QuestionSet], record: Mapping[str, str]) -> list[Finding]:
    """Return the sets that say something else than their version did when it was recorded."""
    found = []
    for one in sets:
        known = record.get(one.key)
        if known is None:
            message = "this version is not recorded yet: `check --record` does that"
            found.append(Finding("not_recorded", one.key, message))
        elif known != one.sha256():
            message = (
                f"changed without a new version ({known[:12]}, now {one.sha256()[:12]});"
                f" raise it to {one.version + 1}"
            )
            found.append(Finding("version_not_raised", one.key, message, is_error=True))
    return found


def extend_record(record: Mapping[str, str], sets: Iterable[QuestionSet]) -> dict[str, str]:
    """Return the record with the versions it lacks; what it has stays."""
    return {one.key: one.sha256() for one in sets} | dict(record)
