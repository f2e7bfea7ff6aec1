"""llama.cpp as a whole: start it, keep its log, say which build it is."""

import ctypes
import hashlib
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import llama_cpp.llama_cpp as native

_ERROR_LEVEL = 4  # GGML_LOG_LEVEL_ERROR
_LIBRARIES = Path(native._base_path)  # noqa: SLF001 - LLAMA_CPP_LIB_PATH, where that is set
_GPU_TYPES = (1, 2)  # GGML_BACKEND_DEVICE_TYPE_GPU and _IGPU


class Handle:
    """Something native that is freed by ``close``, at the end of a ``with`` at the latest."""

    def close(self) -> None:
        """Free it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _NativeLog:
    """Keeps llama.cpp's last error lines, to explain a NULL that comes without a reason."""

    def __init__(self) -> None:
        self._errors: deque[str] = deque(maxlen=8)
        self._callback = native.llama_log_callback(self._receive)  # must outlive every call

    def install(self) -> None:
        native.llama_log_set(self._callback, ctypes.c_void_p(0))

    def clear(self) -> None:
        self._errors.clear()

    def explanation(self) -> str:
        """Return the first error since the last clear, which is the cause of those after it."""
        return self._errors[0] if self._errors else "llama.cpp gave no reason"

    def _receive(self, level: int, text: bytes, _: Any) -> None:
        line = text.decode("utf-8", "replace").strip()
        if level == _ERROR_LEVEL and line:
            self._errors.append(line)


native_log = _NativeLog()
_start = threading.Lock()
_started = False


def start_backend() -> None:
    """Initialise llama.cpp, once per process; its log goes to us instead of stderr."""
    global _started  # llama.cpp's own state is process-wide too
    with _start:
        if not _started:
            native_log.install()
            native.llama_backend_init()
            _load_backends()
            _started = True


def _load_backends() -> None:
    """Load backends where they are libraries of their own, of which the machine's best is taken."""
    if _ggml_number("ggml_backend_reg_count") == 0:
        _ggml("ggml_backend_load_all_from_path", None, ctypes.c_char_p(bytes(_LIBRARIES)))


@dataclass(frozen=True, slots=True)
class Build:
    """What this build of llama.cpp is.

    Attributes:
        llama_cpp: version and commit.
        system_info: what llama.cpp says of its compile flags and of the instruction sets it uses.
        backends: that are compiled in, by ggml's names.
        gpus: by their names.
        libraries_sha256: of the shared libraries, which is what really runs.
    """

    llama_cpp_python: str
    llama_cpp: str
    system_info: str
    gpu_offload: bool
    backends: tuple[str, ...]
    gpus: tuple[str, ...]
    libraries_sha256: str


def describe_build() -> Build:
    """Return versions and the instruction sets this build uses on this machine."""
    start_backend()
    return Build(
        llama_cpp_python=version("llama-cpp-python"),
        llama_cpp=f"{native.llama_version().decode()} ({_ggml_text('ggml_commit')})",
        system_info=native.llama_print_system_info().decode().strip(" |"),
        gpu_offload=native.llama_supports_gpu_offload(),
        backends=tuple(
            _ggml_text("ggml_backend_reg_name", one) for one in _ggml_list("ggml_backend_reg")
        ),
        gpus=tuple(
            _ggml_text("ggml_backend_dev_description", one)
            for one in _ggml_list("ggml_backend_dev")
            if _ggml_number("ggml_backend_dev_type", one) in _GPU_TYPES
        ),
        libraries_sha256=_libraries_sha256(),
    )


# llama-cpp-python binds none of these. They are found through libllama, which needs their library.
def _ggml(name: str, result: Any, *arguments: Any) -> Any:
    function = native._lib[name]  # noqa: SLF001 - see above
    function.restype = result
    function.argtypes = [type(argument) for argument in arguments]
    return function(*arguments)


def _ggml_text(name: str, *arguments: ctypes.c_void_p) -> str:
    return str(_ggml(name, ctypes.c_char_p, *arguments).decode())


def _ggml_number(name: str, *arguments: ctypes.c_void_p) -> int:
    return int(_ggml(name, ctypes.c_size_t, *arguments))


def _ggml_list(name: str) -> Iterator[ctypes.c_void_p]:
    for index in range(_ggml_number(f"{name}_count")):
        yield ctypes.c_void_p(_ggml(f"{name}_get", ctypes.c_void_p, ctypes.c_size_t(index)))


@cache
def _libraries_sha256() -> str:
    digest = hashlib.sha256()
    for path in sorted(_LIBRARIES.glob("*.so")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
