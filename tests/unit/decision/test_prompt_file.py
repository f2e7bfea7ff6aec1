"""A prompt of the operator's own."""

import pytest

from tests.factories import make_choice, make_labels
from worker.decision.prompt import Frame
from worker.decision.prompt_file import read_prompt
from worker.errors import UsageError

GOOD = "{{ state }}|{{ instructions }}{% for o in options %}{{ o.label }}{{ o.key }}{% endfor %}"


@pytest.mark.parametrize(
    ("stem", "name", "version"),
    [
        ("triage-v3", "triage", "3"),
        ("triage-v3.1", "triage", "3.1"),
        ("a-v1-v2", "a-v1", "2"),
        ("triage", "triage", "unversioned"),
    ],
)
def test_a_prompt_is_named_by_its_file(stem: str, name: str, version: str) -> None:
    """Name and version for provenance; the hash is that of its text and frame."""
    prompt = read_prompt(stem, GOOD, Frame())

    assert (name, version) == (prompt.name, prompt.version)
    assert prompt.sha256 == read_prompt("other", GOOD, Frame()).sha256
    assert prompt.sha256 != read_prompt(stem, f"{GOOD}.", Frame()).sha256
    text = "".join(piece.text for piece in prompt.render("S", make_choice(), make_labels(2)))
    assert "S|Who handles this?AmoneyBtech" == text


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("{% for %}", "line 1"),
        (f"{GOOD}\n{{{{ nope", "line 2"),
        (f"{GOOD}{{{{ nope }}}}", "cannot render a choice: 'nope' is undefined"),
        ("{% for o in options %}{{ o.label }}{% endfor %}", "leaves out the state of a choice"),
        (
            "{{ state }}{{ options[0].label }}",
            "leaves out label 2 of a choice",
        ),
        (
            "{{ state }}{{ options[0].label }}{{ options[1].label }}",
            "leaves out label 3 of a score",
        ),
        ("{{ state | upper }}" + GOOD[11:], "leaves out the state"),
    ],
)
def test_what_is_wrong_with_a_prompt_is_told_at_start(source: str, fault: str) -> None:
    """Never at the first ticket."""
    with pytest.raises(UsageError, match=fault):
        read_prompt("mine", source, Frame())
