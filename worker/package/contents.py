"""Find the model in an unpacked package, and hold the package to its manifest."""

from dataclasses import dataclass
from pathlib import Path

from worker.decision.model_manifest import FILE_NAME, ModelManifest, read_manifest
from worker.engine.fingerprint import sha256_of
from worker.engine.model_files import is_later_part
from worker.errors import CannotRun, UsageError


@dataclass(frozen=True, slots=True)
class Package:
    """An unpacked package.

    Attributes:
        folder: where it lies.
        manifest: what it says of itself.
    """

    folder: Path
    manifest: ModelManifest

    def check_model(self, path: Path, sha256: str) -> None:
        """Hold a model beside the manifest to it.

        Args:
            path: the model, or the first of its parts.
            sha256: what its bytes come to.

        Raises:
            CannotRun: it is another, naming both checksums.
        """
        said = self.folder / self.manifest.file
        if said.name != path.name:
            raise CannotRun(f"{self.folder / FILE_NAME} is about {said.name}, not {path.name}")
        _compare(path, sha256, self.manifest.sha256)

    def check_files(self) -> None:
        """Hold question sets and policy to the manifest.

        Raises:
            CannotRun: one is missing, or another, naming both checksums.
        """
        policy = self.manifest.policy
        for packed in (*self.manifest.question_sets, *((policy,) if policy else ())):
            path = self.folder / packed.file
            try:
                found = sha256_of([path])
            except OSError as error:
                raise CannotRun(f"{path}: {error.strerror}") from error
            _compare(path, found, packed.sha256)


def find_model(folder: Path) -> Path:
    """Return the model of a folder: the one its manifest names, else its only GGUF.

    Looks in the folder and one level below; of a split GGUF the first part counts.

    Raises:
        CannotRun: there is none, or there are several.
        UsageError: the manifest cannot be read.
    """
    package = open_package(folder)
    if package is not None:
        return folder / package.manifest.file
    found = sorted(
        path
        for pattern in ("*.gguf", "*/*.gguf")
        for path in folder.glob(pattern)
        if path.is_file() and not is_later_part(path)
    )
    if len(found) != 1:
        names = ": " + ", ".join(str(path.relative_to(folder)) for path in found) if found else ""
        raise CannotRun(
            f"the folder {folder} has {len(found)} models{names}; there must be one, or --model"
            " must name the file"
        )
    return found[0]


def open_package(folder: Path) -> Package | None:
    """Return the package that a folder holds; None: it has no manifest.

    Raises:
        UsageError: the manifest cannot be read.
    """
    path = folder / FILE_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return Package(folder, read_manifest(str(path), content))


def _compare(path: Path, found: str, said: str) -> None:
    if found != said:
        raise CannotRun(
            f"{path} is not what {FILE_NAME} says: its sha256 is {found}, there it is {said}"
        )
