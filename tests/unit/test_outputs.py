"""Files that commands write: whole or not at all, and over nothing that they read."""

import os
from pathlib import Path

import pytest

from worker.errors import UsageError
from worker.outputs import check_output, unfinished_output, write_output


def _fail_after(unfinished: Path) -> None:
    unfinished.write_text("half")
    raise RuntimeError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_there_is_replaced_once_all_is_written(tmp_path: Path) -> None:
    """Until then it is what it was, and afterwards nothing else is left."""
    output = tmp_path / "a.txt"
    output.write_text("old")
    with unfinished_output(output) as unfinished:
        unfinished.write_text("new")
        assert "old" == output.read_text()

    assert "new" == output.read_text()
    assert ["a.txt"] == names(tmp_path)


def test_what_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """Files of other names as well."""
    output = tmp_path / "a.txt"
    output.write_text("old")
    (tmp_path / "a.txt.unfinished").write_text("somebody's")
    with pytest.raises(RuntimeError), unfinished_output(output) as unfinished:
        _fail_after(unfinished)

    assert "old" == output.read_text()
    assert ["a.txt", "a.txt.unfinished"] == names(tmp_path)


def test_a_file_is_as_open_as_the_user_wants_files_to_be(tmp_path: Path) -> None:
    """Not private, as temporary files are."""
    write_output(tmp_path / "a.txt", b"x")
    (tmp_path / "b.txt").write_text("x")

    assert (tmp_path / "b.txt").stat().st_mode == (tmp_path / "a.txt").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What it points to is replaced."""
    (tmp_path / "real.txt").write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to("real.txt")
    write_output(link, b"new")

    assert link.is_symlink()
    assert "new" == (tmp_path / "real.txt").read_text()


@pytest.mark.parametrize("link", [os.link, os.symlink, None])
def test_nothing_is_written_over_what_it_is_made_of(tmp_path: Path, link: object) -> None:
    """Under whatever name."""
    source = tmp_path / "model.gguf"
    source.write_text("weights")
    output = source
    if callable(link):
        output = tmp_path / "out"
        link(source, output)

    with pytest.raises(UsageError, match=r"it is read as well, as .*/model.gguf"):
        write_output(output, b"x", [tmp_path / "missing", source])
    assert "weights" == source.read_text()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_only_regular_files_are_written(tmp_path: Path, make: object) -> None:
    """A device, a pipe or a folder would be replaced by a file."""
    assert callable(make)
    make(tmp_path / "out")

    with pytest.raises(UsageError, match="it is no regular file"):
        check_output(tmp_path / "out")


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    """By the name that was given."""
    output = tmp_path / "none" / "a.txt"
    with pytest.raises(UsageError, match=r"cannot write .*/none/a.txt: No such file or directory"):
        write_output(output, b"x")
