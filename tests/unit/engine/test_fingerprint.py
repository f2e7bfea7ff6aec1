"""What exactly answered: the checksum of the model file, kept between starts."""

import hashlib
import json
import os
from pathlib import Path

import psutil
import pytest

from worker.engine.fingerprint import (
    ModelFile,
    cpu_variant,
    fingerprint_model,
    hardware,
    instance_type,
    sha256_of,
)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def make_file(folder: Path, content: bytes = b"first") -> Path:
    file = folder / "model.gguf"
    file.write_bytes(content)
    os.utime(file, ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000))
    return file


def plant(cache: Path) -> str:
    """Make the kept checksum a wrong one, by which a reader of the cache is told."""
    [kept] = cache.rglob("*.json")
    entry = json.loads(kept.read_text())
    kept.write_text(json.dumps({**entry, "sha256": "planted"}))
    return "planted"


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1])
def test_the_checksum_is_that_of_the_file(tmp_path: Path, size: int) -> None:
    """SHA-256 over all of it, whatever its size."""
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    assert sha(content) == sha256_of([make_file(tmp_path, content)])


def test_path_size_and_checksum_are_told(tmp_path: Path) -> None:
    """A link is followed: provenance names the file that was loaded."""
    file = make_file(tmp_path)
    link = tmp_path / "link.gguf"
    link.symlink_to(file)

    assert ModelFile(file.resolve(), sha(b"first"), 5) == fingerprint_model(
        link, tmp_path / "cache"
    )


def test_the_second_start_does_not_read_the_file(tmp_path: Path) -> None:
    """A file of the same path, size and times is not read again: gigabytes take minutes."""
    file, cache = make_file(tmp_path), tmp_path / "cache"
    fingerprint_model(file, cache)

    assert plant(cache) == fingerprint_model(file, cache).sha256


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """Another content is noticed, also behind an unchanged size and modification time."""
    file, cache = make_file(tmp_path), tmp_path / "cache"
    times = file.stat()
    fingerprint_model(file, cache)
    file.write_bytes(b"other")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert sha(b"other") == fingerprint_model(file, cache).sha256


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    """A file that is moved into the place of one of the same size and time is another file."""
    file, cache = make_file(tmp_path), tmp_path / "cache"
    fingerprint_model(file, cache)
    (tmp_path / "new").mkdir()
    make_file(tmp_path / "new", b"other").replace(file)

    assert sha(b"other") == fingerprint_model(file, cache).sha256


def test_another_file_has_its_own_checksum(tmp_path: Path) -> None:
    """Files of the same size and time in other folders are told apart."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        make_file(tmp_path / name, name.encode())
    found = [
        fingerprint_model(tmp_path / name / "model.gguf", tmp_path / "cache").sha256
        for name in ("a", "b", "a")
    ]

    assert [sha(b"a"), sha(b"b"), sha(b"a")] == found


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    """Where the cache folder cannot be, the file is read at every start, and nothing fails."""
    file, no_folder = make_file(tmp_path), tmp_path / "file"
    no_folder.write_text("not a folder")

    assert sha(b"first") == fingerprint_model(file, no_folder / "cache").sha256


def spoil(cache: Path, content: bytes) -> None:
    [kept] = cache.rglob("*.json")
    kept.write_bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'{"key": "another", "sha256": "00"}',
        b"{}",
        b"null",
        b"[]",
    ],
)
def test_a_spoilt_cache_is_not_believed(tmp_path: Path, content: bytes) -> None:
    """A cache entry that is torn or someone else's is read over, and written anew."""
    file, cache = make_file(tmp_path), tmp_path / "cache"
    fingerprint_model(file, cache)
    spoil(cache, content)

    assert sha(b"first") == fingerprint_model(file, cache).sha256
    assert plant(cache) == fingerprint_model(file, cache).sha256


def test_nothing_unfinished_is_left(tmp_path: Path) -> None:
    """The cache is written in one step: a reader sees all of an entry, or none."""
    fingerprint_model(make_file(tmp_path), tmp_path / "cache")

    assert [".json"] == [path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_the_hardware_has_a_name() -> None:
    """The processor and its physical cores: what the last bit of an answer may depend on."""
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count()

    assert f"({cores} cores, {os.uname().machine})" in hardware()
    assert not hardware().startswith(" ")


@pytest.mark.parametrize(
    ("system_info", "expected"),
    [
        ("CPU : SSE3 = 1 | AVX2 = 1 | REPACK = 1", "SSE3 AVX2 REPACK"),
        ("CUDA : ARCHS = 900 | FAST = 1 | CPU : SSE3 = 1 | AVX = 0", "SSE3"),
        ("", ""),
    ],
)
def test_the_cpu_variant_is_what_is_in_use(system_info: str, expected: str) -> None:
    """Only the CPU's own flags that are on; what a GPU can do is not part of it."""
    assert expected == cpu_variant(system_info)


@pytest.mark.parametrize(
    ("vendor", "expected"), [("Amazon EC2\n", "c7i.large"), ("QEMU", None), (None, None)]
)
def test_ec2_tells_the_instance_type(
    tmp_path: Path, vendor: str | None, expected: str | None
) -> None:
    """From the firmware's words, without a network; other machines tell nothing."""
    if vendor is not None:
        (tmp_path / "sys_vendor").write_text(vendor)
        (tmp_path / "product_name").write_text("c7i.large\n")

    assert expected == instance_type(tmp_path)
