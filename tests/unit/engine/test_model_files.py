"""Models in one file and in parts."""

from pathlib import Path

import pytest

from worker.engine.fingerprint import fingerprint_model
from worker.engine.model_files import check_files, model_files
from worker.errors import CannotRun


def make_parts(folder: Path, count: int = 3) -> list[Path]:
    parts = [folder / f"model-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    for number, part in enumerate(parts):
        part.write_bytes(b"GGUF" + bytes([number]))
    return parts


def test_a_model_is_one_file(tmp_path: Path) -> None:
    """Any name that is not a part's is a model of its own."""
    assert (tmp_path / "model.gguf",) == model_files(tmp_path / "model.gguf")


def test_the_first_part_names_them_all(tmp_path: Path) -> None:
    """Size and checksum are those of all parts."""
    parts = make_parts(tmp_path)

    assert tuple(parts) == model_files(parts[0])
    assert 15 == check_files(parts[0], None)
    first = fingerprint_model(parts[0], tmp_path / "cache")
    parts[2].write_bytes(b"GGUFx")
    assert first.size_bytes == 15
    assert first.sha256 != fingerprint_model(parts[0], tmp_path / "cache").sha256


def test_a_later_part_is_refused_with_the_first(tmp_path: Path) -> None:
    """llama.cpp wants the first part."""
    parts = make_parts(tmp_path)

    with pytest.raises(CannotRun, match=r"name model-00001-of-00003\.gguf"):
        check_files(parts[1], None)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    """A download that is not complete is noticed before anything is loaded."""
    parts = make_parts(tmp_path)
    parts[1].unlink()

    with pytest.raises(CannotRun, match=r"model-00002-of-00003\.gguf cannot be read"):
        check_files(parts[0], None)


def test_all_parts_must_fit_into_memory(tmp_path: Path) -> None:
    """Each alone is small."""
    parts = make_parts(tmp_path)

    with pytest.raises(CannotRun, match="GiB of memory"):
        check_files(parts[0], 14)
