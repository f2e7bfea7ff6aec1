"""Trunks on disk: found again, bounded, and never believed when damaged."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from worker.engine.spill import Spill
from worker.engine.trunks import State

TRUNK = list(range(1300))
STATE: State = (bytearray(b"first piece"), bytearray(b"second"))


def make_spill(folder: Path, *, fingerprint: str = "model", max_bytes: int = 1 << 20) -> Spill:
    return Spill(folder, fingerprint, max_bytes)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_restart_finds_a_trunk(tmp_path: Path) -> None:
    """What one process saved, another restores, piece by piece."""
    make_spill(tmp_path).save(TRUNK, STATE)

    found = make_spill(tmp_path).find(TRUNK)

    assert found is not None
    assert (1300, 1300, STATE) == (found.usable_tokens, found.parked.tokens, found.parked.state)


def test_a_saved_beginning_is_found(tmp_path: Path) -> None:
    """A trunk that ends on a border of a longer one saves that much of it, and only then."""
    make_spill(tmp_path).save(TRUNK[:1024], STATE)
    make_spill(tmp_path).save(TRUNK[:700], STATE)

    found = make_spill(tmp_path).find(TRUNK)

    assert found is not None
    assert 1024 == found.usable_tokens
    assert make_spill(tmp_path).find([-1, *TRUNK[1:]]) is None


def test_another_model_does_not_find_it(tmp_path: Path) -> None:
    """A state belongs to one model, build and cache type."""
    make_spill(tmp_path).save(TRUNK, STATE)

    assert make_spill(tmp_path, fingerprint="other").find(TRUNK) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content + b"x",
        lambda content: b"",
        lambda content: b"x" * len(content),
        lambda content: content[:20],
    ],
)
def test_a_damaged_file_is_not_believed(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """One wrong bit, and the trunk is evaluated again; the file is gone."""
    make_spill(tmp_path).save(TRUNK, STATE)
    (file,) = files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))

    assert make_spill(tmp_path).find(TRUNK) is None
    assert [] == files(tmp_path)


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    """The least recently used files make room, and what is larger than the bound is not kept."""
    spill = make_spill(tmp_path, max_bytes=2000)
    for number in range(3):
        spill.save([number] * 3, (bytearray(800),))
        for age, file in enumerate(files(tmp_path)):
            os.utime(file, ns=(age, age))
        spill.find([0] * 3)  # used: the newest now
    spill.save([9] * 3, (bytearray(3000),))

    assert spill.find([0] * 3) is not None
    assert spill.find([2] * 3) is not None
    assert spill.find([1] * 3) is None
    assert spill.find([9] * 3) is None


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    """A full or missing disk costs time, nothing else."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    make_spill(blocked).save(TRUNK, STATE)

    assert make_spill(blocked).find(TRUNK) is None


def test_only_this_user_can_read_it(tmp_path: Path) -> None:
    """Tokens are the customer's text."""
    folder = tmp_path / "new"

    make_spill(folder).save(TRUNK, STATE)

    assert 0o700 == folder.stat().st_mode & 0o777
