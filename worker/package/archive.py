"""Write a model package whose bytes depend on nothing but what is in it."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from worker.decision.model_manifest import FILE_NAME, SCHEMA, ModelManifest, PackedFile
from worker.decision.policy_file import read_policy
from worker.decision.question_set import load_question_sets
from worker.engine.fingerprint import sha256_of
from worker.engine.model_files import check_files, model_files
from worker.errors import UsageError
from worker.outputs import check_output, unfinished_output
from worker.shelf import read_folder

SETS_FOLDER = "question-sets"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model came from, as far as its packer says."""

    repository: str | None = None
    revision: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A written archive.

    Attributes:
        manifest: what is in it.
        sha256: of the archive.
        size_bytes: of the archive.
    """

    manifest: ModelManifest
    sha256: str
    size_bytes: int


def write_package(
    output: Path,
    model: Path,
    origin: Origin,
    question_sets: Path | None = None,
    policy: Path | None = None,
) -> Packed:
    """Write ``model.tar.gz`` as SageMaker takes it; the same input makes the same bytes.

    Members are sorted by name, belong to nobody and have no time. Nothing is compressed: weights
    do not shrink, and stored blocks are the same with every version of zlib.

    Args:
        output: the archive; what was there is replaced once all is written.
        model: a GGUF, or the first of its parts.
        origin: for the manifest.
        question_sets: a folder of them.
        policy: its file.

    Raises:
        UsageError: a question set or the policy is wrong, or a file cannot be read or written.
        CannotRun: the model is missing or no GGUF.
    """
    check_files(model, None)
    try:
        inputs = _inputs(model, question_sets, policy)
        check_output(output, inputs)  # a checksum of weights takes a while
        sets = _read_sets(question_sets)
        rules = _read_policy(policy)
        manifest = ModelManifest(
            schema=SCHEMA,
            repository=origin.repository,
            revision=origin.revision,
            file=model.name,
            sha256=sha256_of(model_files(model)),
            licence=origin.licence,
            question_sets=_packed(sets),
            policy=next(iter(_packed(rules)), None),
        )
        written = json.dumps(
            manifest.model_dump(mode="json", by_alias=True, exclude_none=True), indent=2
        )
        small = {**sets, **rules, FILE_NAME: written.encode() + b"\n"}
        return Packed(manifest, *_write(output, model_files(model), small, inputs))
    except OSError as error:
        raise UsageError(f"package: {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"package: {model.name}: a name must be plain letters and digits") from (
            error
        )


def _inputs(model: Path, question_sets: Path | None, policy: Path | None) -> list[Path]:
    sets = [] if question_sets is None else list(question_sets.iterdir())
    return [*model_files(model), *sets, *([] if policy is None else [policy])]


def _read_sets(folder: Path | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    files = read_folder(folder)
    load_question_sets(files)
    return {f"{SETS_FOLDER}/{name}": content for name, content in files}


def _read_policy(path: Path | None) -> dict[str, bytes]:
    if path is None:
        return {}
    content = path.read_bytes()
    read_policy(str(path), content)
    return {f"policy{path.suffix}": content}


def _packed(files: Mapping[str, bytes]) -> tuple[PackedFile, ...]:
    return tuple(
        PackedFile(file=name, sha256=hashlib.sha256(content).hexdigest())
        for name, content in sorted(files.items())
    )


def _write(
    output: Path, model: Sequence[Path], small: Mapping[str, bytes], inputs: Iterable[Path]
) -> tuple[str, int]:
    members: dict[str, Path | bytes] = {**{path.name: path for path in model}, **small}
    with unfinished_output(output, inputs) as unfinished:
        with (
            unfinished.open("wb") as file,
            gzip.GzipFile("", "wb", compresslevel=0, fileobj=file, mtime=0) as stored,
            tarfile.open(fileobj=stored, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, content in sorted(members.items()):
                _add(archive, name, content)
        return sha256_of([unfinished]), unfinished.stat().st_size


def _add(archive: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    if isinstance(content, Path):
        with content.open("rb") as file:
            archive.addfile(_member(name, content.stat().st_size), file)
    else:
        archive.addfile(_member(name, len(content)), io.BytesIO(content))


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(str(PurePosixPath(name)))
    member.size = size_bytes
    member.mode = 0o644
    return member
