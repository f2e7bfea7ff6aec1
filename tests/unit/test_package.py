"""Model packages: the same bytes twice, and nothing else than what the manifest says."""

import gzip
import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from worker.decision.model_manifest import FILE_NAME, read_manifest
from worker.errors import CannotRun, UsageError
from worker.package.archive import Origin, write_package
from worker.package.contents import find_model, open_package
from worker.settings import Settings, ignored_variables, load_settings
from worker.settings.containers import SETTINGS

ORIGIN = Origin("owner/model", "0123abc", "apache-2.0")
SET = "name: triage\nversion: 1\nquestions: {refund: {type: noul, instructions: Refund me}}\n"


def make_model(folder: Path, name: str = "model.gguf", content: bytes = b"GGUF weights") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def make_sets(folder: Path) -> Path:
    folder.mkdir()
    (folder / "triage.yaml").write_text(SET)
    return folder


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as found:
        found.extractall(folder, filter="data")
    return folder


def test_the_same_input_makes_the_same_bytes(tmp_path: Path) -> None:
    """Wherever and whenever the files were written, and whatever the archive is called."""
    first = make_model(tmp_path / "a")
    second = make_model(tmp_path / "b")
    os.utime(second, (1, 1))
    second.chmod(0o600)
    sets = make_sets(tmp_path / "sets")

    packed = write_package(tmp_path / "one.tar.gz", first, ORIGIN, sets)
    again = write_package(tmp_path / "two.tar.gz", second, ORIGIN, sets)

    content = (tmp_path / "one.tar.gz").read_bytes()
    assert content == (tmp_path / "two.tar.gz").read_bytes()
    assert packed == again
    assert hashlib.sha256(content).hexdigest() == packed.sha256
    assert bytes(4) == content[4:8], "gzip's time"
    assert ["one.tar.gz", "two.tar.gz"] == sorted(p.name for p in tmp_path.glob("*.tar.gz*"))


def test_a_package_replaces_nothing_that_goes_into_it(tmp_path: Path) -> None:
    """Nor what is called as an unfinished one might be."""
    model = make_model(tmp_path)
    before = model.read_bytes()
    beside = tmp_path / "model.tar.gz.unfinished"
    beside.write_text("somebody's")

    with pytest.raises(UsageError, match="it is read as well"):
        write_package(model, model, ORIGIN)
    write_package(tmp_path / "model.tar.gz", model, ORIGIN)
    assert before == model.read_bytes()
    assert "somebody's" == beside.read_text()


def test_members_belong_to_nobody_and_are_sorted(tmp_path: Path) -> None:
    """What a file system adds would make other bytes elsewhere."""
    write_package(tmp_path / "m.tar.gz", make_model(tmp_path), ORIGIN, make_sets(tmp_path / "s"))

    with tarfile.open(tmp_path / "m.tar.gz") as archive:
        members = archive.getmembers()
    assert [FILE_NAME, "model.gguf", "question-sets/triage.yaml"] == [m.name for m in members]
    assert {(0, 0, 0, "", "", 0o644)} == {
        (m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members
    }


def test_an_unpacked_package_is_what_it_says(tmp_path: Path) -> None:
    """Origin, model, question sets: found again by the manifest alone."""
    model = make_model(tmp_path / "in")
    write_package(tmp_path / "m.tar.gz", model, ORIGIN, make_sets(tmp_path / "s"))

    folder = unpacked(tmp_path / "m.tar.gz", tmp_path / "out")
    package = open_package(folder)

    assert package is not None
    assert ("owner/model", "0123abc", "apache-2.0") == (
        package.manifest.repository,
        package.manifest.revision,
        package.manifest.licence,
    )
    assert folder / "model.gguf" == find_model(folder)
    package.check_files()
    package.check_model(folder / "model.gguf", hashlib.sha256(b"GGUF weights").hexdigest())


def test_all_parts_of_a_split_model_are_packed(tmp_path: Path) -> None:
    """The first names them, and the checksum is that of all in a row."""
    for number in (1, 2):
        make_model(tmp_path, f"m-0000{number}-of-00002.gguf", b"GGUF%d" % number)

    packed = write_package(tmp_path / "m.tar.gz", tmp_path / "m-00001-of-00002.gguf", Origin())

    folder = unpacked(tmp_path / "m.tar.gz", tmp_path / "out")
    assert hashlib.sha256(b"GGUF1GGUF2").hexdigest() == packed.manifest.sha256
    assert (folder / "m-00002-of-00002.gguf").is_file()
    assert folder / "m-00001-of-00002.gguf" == find_model(folder)


def test_a_changed_question_set_names_both_checksums(tmp_path: Path) -> None:
    """What is asked belongs to the package as much as the weights."""
    write_package(tmp_path / "m.tar.gz", make_model(tmp_path), ORIGIN, make_sets(tmp_path / "s"))
    folder = unpacked(tmp_path / "m.tar.gz", tmp_path / "out")
    changed = SET + "# changed\n"
    (folder / "question-sets" / "triage.yaml").write_text(changed)
    package = open_package(folder)
    assert package is not None

    with pytest.raises(CannotRun) as refused:
        package.check_files()

    for text in (SET, changed):
        assert hashlib.sha256(text.encode()).hexdigest() in str(refused.value)


def test_a_faulty_question_set_is_not_packed(tmp_path: Path) -> None:
    """Else it would be found at the start of every worker."""
    sets = make_sets(tmp_path / "s")
    (sets / "triage.yaml").write_text("name: triage\n")

    with pytest.raises(UsageError):
        write_package(tmp_path / "m.tar.gz", make_model(tmp_path), ORIGIN, sets)
    assert [] == list(tmp_path.glob("*.tar.gz*"))


@pytest.mark.parametrize("names", [[], ["a.gguf", "b.gguf"], ["a.gguf", "below/b.gguf"]])
def test_a_folder_needs_exactly_one_model(tmp_path: Path, names: list[str]) -> None:
    """Guessing which one was meant would answer with the wrong model."""
    for name in names:
        make_model((tmp_path / name).parent, Path(name).name)

    with pytest.raises(CannotRun, match=f"has {len(names)} models.*--model"):
        find_model(tmp_path)


@pytest.mark.parametrize("name", ["a.gguf", "below/a.gguf"])
def test_the_only_model_is_found(tmp_path: Path, name: str) -> None:
    """Also one folder below, as AWS's containers look; later parts of a split are no models."""
    make_model((tmp_path / name).parent, Path(name).name)
    make_model(tmp_path, "b-00002-of-00002.gguf")

    assert tmp_path / name == find_model(tmp_path)


def test_the_samples_manifest_is_understood() -> None:
    """A package that was made for AWS's SemIf sample is verified, too."""
    gguf = {"repo": "r", "revision": "1", "file": "m.gguf", "sha256": "0" * 64}
    content = json.dumps({"gguf": gguf, "tokenizer": {"repo": "t", "revision": "2"}}).encode()

    manifest = read_manifest("model-manifest.json", content)

    assert ("r", "1", "m.gguf", "0" * 64) == (
        manifest.repository, manifest.revision, manifest.file, manifest.sha256
    )  # fmt: skip


def test_stored_blocks_are_plain_gzip(tmp_path: Path) -> None:
    """SageMaker unpacks with any gunzip."""
    write_package(tmp_path / "m.tar.gz", make_model(tmp_path), ORIGIN)

    assert b"GGUF weights" in gzip.decompress((tmp_path / "m.tar.gz").read_bytes())


def test_variables_of_neighbouring_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file goes before a folder, ours before theirs; what means nothing here is named."""
    for name, value in {
        "SM_LLAMA_CPP_MODEL": "/models/a.gguf",
        "SM_LLAMA_CPP_MODEL_DIR": "/models",
        "SM_LLAMA_CPP_FLASH_ATTN": "true",
        "SM_LLAMA_CPP_JINJA": "true",
        "SEMIF_THREADS": "3",
        "SEMIF_PORT": "8081",
        "SEMIF_TOKENIZER_REVISION": "x",
        "WORKER_THREADS": "2",
    }.items():
        monkeypatch.setenv(name, value)

    settings = load_settings({})

    assert Path("/models/a.gguf") == settings.model
    assert ("on", 2) == (settings.flash_attention, settings.threads)
    assert ("0.0.0.0", 8081) == (settings.host, settings.port)
    assert ["SEMIF_TOKENIZER_REVISION", "SM_LLAMA_CPP_JINJA"] == ignored_variables()


def test_a_wrong_value_names_the_neighbours_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever set it looks for that name."""
    monkeypatch.setenv("SEMIF_THREADS", "many")

    with pytest.raises(UsageError, match="SEMIF_THREADS: "):
        load_settings({})


def test_every_variable_stands_for_a_setting_and_the_readme_tells() -> None:
    """A renamed setting would silently lose its variable."""
    readme = (Path(__file__).parents[2] / "docs" / "model-packages.md").read_text()

    assert set(SETTINGS.values()) <= set(Settings.model_fields)
    assert [] == [name for name in SETTINGS if f"`{name}`" not in readme]
