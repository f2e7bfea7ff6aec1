"""llama.cpp as a whole: start it, keep its log, say which build it is."""

import ctypes
import threading
from collections import deque
from dataclasses import dataclass
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self

import llama_cpp.llama_cpp as native

_ERROR_LEVEL = 4  # GGML_LOG_LEVEL_ERROR


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
            _started = True


@dataclass(frozen=True, slots=True)
class Build:
    """What this build of llama.cpp is."""

    llama_cpp_python: str
    llama_cpp: str
    system_info: str
    gpu_offload: bool


def describe_build() -> Build:
    """Return versions and the instruction sets this build uses on this machine."""
    start_backend()
    return Build(
        llama_cpp_python=version("llama-cpp-python"),
        llama_cpp=native.llama_version().decode(),
        system_info=native.llama_print_system_info().decode().strip(" |"),
        gpu_offload=native.llama_supports_gpu_offload(),
    )
