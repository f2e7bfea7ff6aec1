"""The journal: what was sent is known after any interruption, and nobody else's file is touched."""

from pathlib import Path

import pytest

from tests.unit.desk.test_letters import letter
from worker.desk.journal import open_journal, read_submitted
from worker.errors import UsageError

QUEUE = "https://sqs/tickets"


def test_what_was_noted_is_known(tmp_path: Path) -> None:
    """Across openings, by ticket id and content."""
    path = tmp_path / "journal"
    with open_journal(path, QUEUE) as journal:
        assert not journal.has(letter("x"))
        journal.add([letter("x")])
        assert journal.has(letter("x"))
    with open_journal(path, QUEUE) as journal:
        assert journal.has(letter("x"))
        assert not journal.has(letter("changed"))
        journal.add([letter("changed")])
        assert journal.has(letter("changed"))

    assert {"a.txt"} == read_submitted(path)


def test_a_torn_line_was_not_noted(tmp_path: Path) -> None:
    """What a killed process left of a line is cut off, also of the first; the rest stays."""
    path = tmp_path / "journal"
    with open_journal(path, QUEUE) as journal:
        journal.add([letter("x")])
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with open_journal(path, QUEUE) as journal:
            assert not journal.has(letter("x"))
            journal.add([letter("x")])

        assert whole == path.read_bytes()
        assert {"a.txt"} == read_submitted(path)


def test_one_submission_at_a_time(tmp_path: Path) -> None:
    """Two would send everything twice."""
    path = tmp_path / "journal"
    with open_journal(path, QUEUE), pytest.raises(UsageError, match="is in use"):
        open_journal(path, QUEUE).__enter__()


@pytest.mark.parametrize(
    "content",
    [b"my diary", b"my diary\n", b'{"format": 1}\n', b'{"format": 1, "queue_url"', b"\xff\n"],
)
def test_another_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    """Nothing is written to a file that is no journal, nor cut off from it."""
    path = tmp_path / "journal"
    path.write_bytes(content)
    is_torn_journal = content == b'{"format": 1, "queue_url"'
    if is_torn_journal:
        with open_journal(path, QUEUE) as journal:
            assert {} == journal.known
        return
    with pytest.raises(UsageError):
        open_journal(path, QUEUE).__enter__()

    assert content == path.read_bytes()
    with pytest.raises(UsageError):
        read_submitted(path)


def test_a_journal_belongs_to_one_queue(tmp_path: Path) -> None:
    """What another queue has is not what this one has."""
    path = tmp_path / "journal"
    with open_journal(path, QUEUE):
        pass
    with pytest.raises(UsageError, match="is the journal of the queue https://sqs/tickets"):
        open_journal(path, "https://sqs/other").__enter__()


def test_a_journal_that_cannot_be_written_names_the_option(tmp_path: Path) -> None:
    """A source may lie in a folder that is read only."""
    with pytest.raises(UsageError, match="name another file with --submitted"):
        open_journal(tmp_path / "none" / "journal", QUEUE).__enter__()
    with pytest.raises(UsageError, match="cannot read"):
        read_submitted(tmp_path / "none")
