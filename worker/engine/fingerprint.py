"""What exactly answered: the model file's checksum, the build, the hardware."""

import hashlib
import json
import platform
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from worker.engine.model_files import model_files

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model's file, or the first of its parts, with the checksum and size of all parts."""

    path: Path
    sha256: str
    size_bytes: int


def fingerprint_model(
    path: Path, cache_dir: Path, given_up: threading.Event | None = None
) -> ModelFile:
    """Checksum a model file; the result is kept by path, inode, size and times.

    Args:
        path: an existing file.
        cache_dir: where results are kept; made when missing. A folder that cannot be written
            costs time at the next start, nothing else.
        given_up: once set, reading ends, and what is returned means nothing.
    """
    # Parts are named by the first, so a link to it would not lead to the others.
    files = model_files(path)
    path = path.resolve()
    key = "|".join(map(_identity, files))
    kept = cache_dir / "checksums" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    checksum = _kept(kept, key)
    if checksum is None:
        checksum = sha256_of(files, given_up)
        if given_up is None or not given_up.is_set():
            _keep(kept, key, checksum)
    return ModelFile(path, checksum, sum(file.stat().st_size for file in files))


def sha256_of(files: Iterable[Path], given_up: threading.Event | None = None) -> str:
    """Return the hex SHA-256 of all files in a row, or of a beginning once *given_up* is set."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                if given_up is not None and given_up.is_set():
                    return digest.hexdigest()
    return digest.hexdigest()


def _identity(path: Path) -> str:
    """Return what changes when a file's content may have changed."""
    status = path.stat()
    times = f"{status.st_mtime_ns}|{status.st_ctime_ns}"
    return f"{path.resolve()}|{status.st_ino}|{status.st_size}|{times}"


def hardware(gpus: Sequence[str] = ()) -> str:
    """Return the processor's name and its number of physical cores, and the GPUs in use."""
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return ", ".join([f"{_processor()} ({cores} cores, {platform.machine()})", *gpus])


def backend_in_use(backends: Sequence[str], gpu_layers: int) -> str:
    """Return where the weights are: ``cpu``, or the name of the GPU's backend."""
    others = [name.lower() for name in backends if name != "CPU"]
    return others[0] if gpu_layers and others else "cpu"


def cpu_variant(system_info: str) -> str:
    """Return the CPU's instruction sets and kernels that a build uses, from llama.cpp's words.

    Those are such as ``CUDA : ARCHS = 900 | CPU : SSE3 = 1 | AVX2 = 1``.
    """
    section, used = "", []
    for part in system_info.split("|"):
        name, colon, rest = part.partition(" : ")
        section = name.strip() if colon else section
        flag, _, value = (rest if colon else part).partition("=")
        if section == "CPU" and value.strip() == "1":
            used.append(flag.strip())
    return " ".join(used)


def instance_type(dmi: Path = Path("/sys/class/dmi/id")) -> str | None:
    """Return the EC2 instance type, which Nitro machines show as the product's name.

    Args:
        dmi: where the kernel shows what the firmware says.
    """
    try:
        if (dmi / "sys_vendor").read_text().strip() != "Amazon EC2":
            return None
        return (dmi / "product_name").read_text().strip() or None
    except OSError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown processor"


def _kept(file: Path, key: str) -> str | None:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("key") != key:
        return None
    return found.get("sha256")


def _keep(file: Path, key: str, checksum: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"key": key, "sha256": checksum}))
        unfinished.replace(file)
    except OSError:
        return
