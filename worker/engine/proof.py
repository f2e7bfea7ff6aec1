"""Prove in a child process that this build of llama.cpp can run this model on this machine.

A build for another processor dies with an illegal instruction at its first decode, a build whose
libraries are missing dies at import, and some broken models crash llama.cpp. A child takes the
crash; the parent turns it into one sentence with the remedy. Run as
``python -m worker.engine.proof MODEL GPU_LAYERS``.
"""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from worker.engine.options import ModelOptions
from worker.errors import CannotRun, ExitCode

_TIMEOUT_SECONDS = 600
_LOOK_SECONDS = 0.2
_CONTEXT_TOKENS = 64

_REBUILD = (
    "rebuild llama-cpp-python for this machine: `make setup` in a checkout, or pip install"
    " --no-binary llama-cpp-python with CFLAGS and CXXFLAGS set to"
    ' "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" on x86-64'
)


def prove_build(path: Path, gpu_layers: int, given_up: threading.Event | None = None) -> None:
    """Load *path* and decode a few tokens in a child process; blocks until it ends.

    Args:
        path: the model.
        gpu_layers: layers to offload.
        given_up: once set, the child is ended and the proof is not waited for.

    Raises:
        CannotRun: the child crashed or refused, with the reason and the remedy.
    """
    command = [sys.executable, "-m", "worker.engine.proof", str(path), str(gpu_layers)]
    # A session of its own: Ctrl-C and a supervisor's signal are for us, not for the child.
    with subprocess.Popen(  # noqa: S603 - our own module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            said, complained = _wait(child, given_up or threading.Event())
        finally:
            child.kill()
    if given_up is None or not given_up.is_set():
        _judge(child.returncode, said, complained)


def _wait(child: subprocess.Popen[str], given_up: threading.Event) -> tuple[str, str]:
    end = time.monotonic() + _TIMEOUT_SECONDS
    while not given_up.is_set():
        try:
            return child.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise CannotRun(
                    f"llama.cpp did not decode its first tokens within {_TIMEOUT_SECONDS} seconds"
                ) from None
    return "", ""


def _judge(code: int, said: str, complained: str) -> None:
    """Turn the child's end into an error, unless all was well."""
    if code == ExitCode.DONE:
        return
    if code == ExitCode.CANNOT_RUN:
        raise CannotRun(said.strip())
    if code == -signal.SIGKILL:
        raise CannotRun("llama.cpp was killed while it loaded the model, most likely for memory")
    if code == -signal.SIGILL:
        raise CannotRun(
            "this build of llama.cpp uses instructions that this processor does not run"
            f" (illegal instruction); {_REBUILD}"
        )
    if code < 0:
        name = signal.Signals(-code).name
        raise CannotRun(
            f"llama.cpp crashed at its first decode ({name}): the model file may be broken,"
            f" or the build may not fit this machine; {_REBUILD}"
        )
    lines = complained.strip().splitlines() or ["it gave no reason"]
    raise CannotRun(f"llama.cpp cannot be loaded: {lines[-1]}; {_REBUILD}")


def main(path: str, gpu_layers: str) -> int:
    """Be the child."""
    # Imported here, so that the parent can call prove_build before it loads llama.cpp itself.
    from worker.engine.calls import NativeError
    from worker.engine.exact import TRUNK
    from worker.engine.llama import Context, Model

    options = ModelOptions(context_tokens=_CONTEXT_TOKENS, threads=1, gpu_layers=int(gpu_layers))
    try:
        with Model.load(Path(path), options) as model:
            if not model.is_decoder:
                raise CannotRun(
                    f"a model of architecture {model.architecture} does not predict a next token;"
                    " serve encoder models through llama-server"
                )
            with Context(model, options) as context:
                context.decode([0, 1, 2, 3], position=0, sequence=TRUNK, read=True)
                context.read([0])
    except (CannotRun, NativeError) as error:
        sys.stdout.write(str(error))
        return ExitCode.CANNOT_RUN
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
