"""Builds the llama-cpp-python wheel for this machine once, and prints where it lies.

pip's own cache knows a wheel by name and version only: it would hand out one that was built with
other flags, or for another CPU. Here each build has a folder of its own, named by a hash over
everything that changes what the compiler writes.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

PACKAGE = "llama-cpp-python"
X86_MACHINES = ("x86_64", "amd64", "i686")
# A virtual machine may show AMX in its CPU flags and still not let programs use it: a native
# build then dies of an illegal instruction at the first decode of a quantised model.
NO_AMX_FLAGS = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
REPORT_EVERY_SECONDS = 30
LOG_TAIL_LINES = 40
STOP_SECONDS = 5


class BuildError(Exception):
    """Ends the program with one message."""


def say(message: str) -> None:
    """Reports on stderr: stdout carries the path only."""
    print(message, file=sys.stderr, flush=True)


def build_environment() -> dict[str, str]:
    """The caller's environment with what this build needs."""
    env = dict(os.environ)
    if platform.machine().lower() in X86_MACHINES:
        for name in ("CFLAGS", "CXXFLAGS"):
            env[name] = " ".join([*env.get(name, "").split(), *NO_AMX_FLAGS])
    env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
    # Under `make -j` these name a job server whose pipe is closed here.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        env.pop(name, None)
    return env


def native_macros(env: dict[str, str]) -> str:
    """What the compiler takes this CPU for, and which compiler it is, in its own words.

    Closer to the truth than /proc/cpuinfo, which lists hundreds of flags that a kernel update
    changes and code generation does not see.
    """
    native = "-march=native" if platform.machine().lower() in X86_MACHINES else "-mcpu=native"
    compiler = shlex.split(env.get("CC") or "cc")
    flags = [native, *env.get("CFLAGS", "").split(), "-dM", "-E"]
    command = [*compiler, *flags, "-x", "c", os.devnull]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise BuildError(
            f"no C compiler ({compiler[0]}): install build-essential, or set CC and CXX"
        ) from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().partition("\n")[0]
        raise BuildError(f"the C compiler refuses `{shlex.join(command)}`: {reason}") from error
    return "\n".join(sorted(done.stdout.splitlines()))


def cpu_model() -> str:
    """The CPU's name as the kernel knows it; empty where it does not say."""
    names = ("model name", "CPU implementer", "CPU part")
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return "; ".join(sorted({" ".join(s.split()) for s in lines if s.startswith(names)}))
    return ""


def describe(requirements: Path, env: dict[str, str]) -> dict[str, str]:
    """Everything that decides what the wheel holds."""
    text = requirements.read_text(encoding="utf-8")
    pinned = re.search(rf"^{PACKAGE}==(\S+)", text, re.MULTILINE)
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", text)
    if not pinned or not hashes:
        raise BuildError(f"{requirements}: no line `{PACKAGE}==VERSION --hash=sha256:...`")
    variables = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS")
    return {
        "version": pinned[1],
        "sdist_sha256": " ".join(hashes),
        "python": f"cp{sys.version_info.major}{sys.version_info.minor}",
        "machine": platform.machine().lower(),
        "cpu": cpu_model(),
        "compiler_sees_sha256": hashlib.sha256(native_macros(env).encode()).hexdigest(),
        **{name: " ".join(env.get(name, "").split()) for name in variables},
    }


def folder_name(description: dict[str, str]) -> str:
    """One folder per build, readable at its start."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(description.items()))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return "-".join([description[name] for name in ("version", "python", "machine")] + [digest])


def find_wheel(folder: Path) -> Path | None:
    """The finished wheel of a folder, if there is one."""
    return next(iter(sorted(folder.glob("*.whl"))), None)


@contextlib.contextmanager
def only_builder(folder: Path) -> Iterator[None]:
    """Lets one builder of this folder go on; the kernel frees the lock if that one is killed."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another build of the same wheel is running; waiting for it ({folder}).")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def last_step(log: Path) -> str:
    """Ninja's latest `[12/345]`, if it came that far."""
    steps = re.findall(r"\[\d+/\d+\]", log.read_text(encoding="utf-8", errors="replace"))
    return f", step {steps[-1]}" if steps else ""


def wait_for(build: subprocess.Popen[bytes], log: Path) -> int:
    """Waits, and says every half minute that it is still going on."""
    started = time.monotonic()
    while True:
        try:
            return build.wait(timeout=REPORT_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            minutes, seconds = divmod(int(time.monotonic() - started), 60)
            say(f"  {minutes}:{seconds:02d} building{last_step(log)}")


def stop_group(build: subprocess.Popen[bytes]) -> None:
    """Ends pip, CMake and the compilers together, so that none writes on after us."""
    with contextlib.suppress(ProcessLookupError):
        # Politely first: each compiler has a process group of its own, which only ninja can end.
        os.killpg(build.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            build.wait(timeout=STOP_SECONDS)
        os.killpg(build.pid, signal.SIGKILL)
    build.wait()


def run_pip(requirements: Path, target: Path, env: dict[str, str], output: TextIO) -> int:
    """Builds into `target` and returns pip's exit code."""
    command = [
        *(sys.executable, "-m", "pip", "wheel", "--verbose", "--disable-pip-version-check"),
        # A cached wheel may have other flags; the build tools come from requirements.txt.
        *("--no-cache-dir", "--no-build-isolation", "--no-binary", PACKAGE),
        *("--no-deps", "--require-hashes", "--requirement", str(requirements)),
        *("--wheel-dir", str(target)),
    ]
    build = subprocess.Popen(
        command, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        return wait_for(build, Path(output.name))
    except BaseException:
        stop_group(build)
        raise


def build_wheel(requirements: Path, folder: Path, env: dict[str, str]) -> Path:
    """Builds beside the final place and moves the finished wheel there in one step."""
    log = folder / "build.log"
    for left_over in folder.glob("building-*"):  # of a build that was killed: we hold the lock
        shutil.rmtree(left_over, ignore_errors=True)
    say("Building llama.cpp from source for this machine. This takes about 8 minutes on 2 cores")
    say(f"and happens once; the wheel is kept in {folder}")
    with tempfile.TemporaryDirectory(
        prefix="building-", dir=folder, ignore_cleanup_errors=True
    ) as scratch:
        target = Path(scratch) / "wheel"
        with log.open("w", encoding="utf-8") as output:
            code = run_pip(requirements, target, env | {"TMPDIR": scratch}, output)
        wheel = find_wheel(target)
        if code != 0 or wheel is None:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            say("\n".join(lines[-LOG_TAIL_LINES:]))
            raise BuildError(f"building llama.cpp failed; the whole log is {log}")
        return wheel.replace(folder / wheel.name)


def main() -> None:
    """Prints the path of the wheel, after building it if it is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of all builds")
    parser.add_argument("--requirements", type=Path, default=Path("requirements-llama.txt"))
    parser.add_argument("--print-folder", action="store_true", help="build nothing")
    arguments = parser.parse_args()

    env = build_environment()
    description = describe(arguments.requirements, env)
    folder = arguments.cache.expanduser().resolve() / folder_name(description)
    if arguments.print_folder:
        print(folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}: {value}\n" for name, value in description.items()]
    (folder / "built-with.txt").write_text("".join(lines), encoding="utf-8")
    wheel = find_wheel(folder)
    if wheel is None:
        with only_builder(folder):
            # Whoever held the lock before us may have built it.
            wheel = find_wheel(folder) or build_wheel(arguments.requirements, folder, env)
    print(wheel)


if __name__ == "__main__":
    # A stopped container or CI run ends the compilers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except BuildError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
