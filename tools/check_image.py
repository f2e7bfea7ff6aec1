"""Builds docker/Dockerfile and runs the image, without a container engine; prints what it measured.

Needs root and Debian's buildah, podman, runc and mmdebstrap. The base image is made here, since
this asks no registry of images. Everything lies in one folder outside the checkout, and is kept
there: a second run builds only what changed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROGRAMS = ("buildah", "podman", "runc", "mmdebstrap")
BASE = "localhost/debian:12-slim"
IMAGE = "localhost/decision-worker:check"
CONTAINER = "decision-worker-check"
USER = "10001"
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
STARTS_WITHIN_SECONDS = 120
# What pip needs to reach an index through a certificate authority or a mirror of one's own.
OF_THE_HOST = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf", "/etc/xdg/pip")
QUESTIONS = {f"q{n}": {"type": "noul", "instructions": f"Is it about {n}?"} for n in range(8)}
BODY = {"state": "The second invoice for one seat came today. " * 150, "questions": QUESTIONS}


class CheckError(Exception):
    """Ends the program with one message."""


def say(message: str) -> None:
    """Reports a step or a figure."""
    print(message, flush=True)


def run(*command: object, quiet: bool = False, **options: Any) -> str:
    """Runs a command and returns its output; with what it said where it fails."""
    words = [str(word) for word in command]
    where = subprocess.PIPE if quiet else None
    options = {"stderr": where} | options
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise CheckError(f"{words[0]} {words[1]} ended with {done.returncode}\n{done.stderr or ''}")
    return done.stdout


def check(told: str, holds: bool) -> None:
    """Reports that something holds, or ends the program."""
    if not holds:
        raise CheckError(f"not so: {told}")
    say(f"ok  {told}")


class Store:
    """The images' and containers' folder.

    Args:
        folder: of all that is made here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._options = (
            *("--root", folder / "images", "--runroot", folder / "run"),
            *("--storage-driver", "overlay"),
        )

    def buildah(self, *arguments: object, **options: Any) -> str:
        """Runs buildah on the store."""
        return run("buildah", *self._options, *arguments, **options)

    def podman(self, *arguments: object, **options: Any) -> str:
        """Runs podman on the store."""
        how = ("--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file")
        return run("podman", *self._options, *how, *arguments, **options)


def make_base(store: Store) -> None:
    """Makes the base image, unless it is there."""
    if BASE in store.podman("images", "--format", "{{.Repository}}:{{.Tag}}", quiet=True):
        return
    say(f"Making {BASE}")
    archive = store.folder / "base.tar"
    run(
        *("mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io"),
        *(f"--include={BASE_PACKAGES}", "bookworm", archive),
    )
    store.podman("import", archive, BASE, quiet=True)
    archive.unlink()


def build(store: Store, jobs: int) -> None:
    """Builds the image and says how long that took."""
    say("Building docker/Dockerfile; the first time llama.cpp takes half an hour on 2 cores")
    mounts = [(path, path) for path in (*OF_THE_HOST, *local_indexes()) if Path(path).exists()]
    revision = run("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    arguments = {"BASE_IMAGE": BASE, "BUILD_JOBS": jobs, "REVISION": revision}
    began = time.monotonic()
    store.buildah(
        *("bud", "--isolation", "chroot", "--pull-never", "--layers"),
        *(word for one, other in mounts for word in ("-v", f"{one}:{other}:ro")),
        *(word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")),
        *("-f", ROOT / "docker" / "Dockerfile", "-t", IMAGE, ROOT),
    )
    size = json.loads(store.podman("image", "inspect", IMAGE, quiet=True))[0]["Size"]
    say(f"built in {time.monotonic() - began:.0f} s; {size / 1e6:.0f} MB")


def local_indexes() -> list[str]:
    """The folders that pip is configured to look in."""
    told = run(sys.executable, "-m", "pip", "config", "list")
    words = told.replace("'", " ").replace("file://", " ").split()
    return [word for word in words if word.startswith("/") and Path(word).is_dir()]


@contextlib.contextmanager
def served(store: Store, model: Path) -> Iterator[str]:
    """Runs `serve` in the image, shut in; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    limits = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")
    shut_in = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges")
    store.podman(
        *("run", "-d", "--name", CONTAINER, "--network", "host", *limits, *shut_in),
        *("-e", f"WORKER_PORT={port}", "-e", "WORKER_MODEL=/opt/ml/model"),
        *("-v", f"{model.parent}:/opt/ml/model:ro", IMAGE, "serve"),
        quiet=True,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        store.podman("rm", "-f", CONTAINER, quiet=True)


def ask(address: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Asks the container; returns status and answer."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=300) as answer:
            return answer.status, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        return error.code, None
    except OSError:
        return 0, None


def wait_until_ready(store: Store, address: str) -> None:
    """Waits for 200 on /ping and says how long that took."""
    began = time.monotonic()
    while ask(address, "/ping")[0] != 200:
        running = store.podman("inspect", "-f", "{{.State.Running}}", CONTAINER, quiet=True)
        if "true" not in running or time.monotonic() - began > STARTS_WITHIN_SECONDS:
            raise CheckError(store.podman("logs", CONTAINER, stderr=subprocess.STDOUT))
        time.sleep(0.1)
    say(f"/ping answered 200 after {time.monotonic() - began:.1f} s")


def check_image(store: Store, model: Path) -> None:
    """Runs the image and looks at it as a platform would."""
    with served(store, model) as address:
        wait_until_ready(store, address)
        status, answer = ask(address, "/invocations", BODY)
        check("/invocations answers", status == 200 and set(answer["answers"]) == set(QUESTIONS))
        check("it does not run as root", exec_in(store, "id", "-u").strip() == USER)
        wrote = exec_in(store, "sh", "-c", "touch /opt/worker/x 2>&1 || echo refused")
        check("the root file system is read-only", "refused" in wrote)
        libraries = exec_in(
            store, "sh", "-c", "ls /opt/worker/lib/python3*/site-packages/llama_cpp/lib"
        )
        levels = [one for one in libraries.split() if one.startswith("libggml-cpu-")]
        check(f"{len(levels)} levels of processors, none with AMX", "sapphire" not in libraries)
        bill = json.loads(exec_in(store, "cat", "/opt/worker/sbom.cdx.json"))
        check(
            f"the bill of materials has {len(bill['components'])} parts", bool(bill["components"])
        )
        health = ask(address, "/health")[1]
        say(f"health: {json.dumps(health)[:200]}")
        check_drain(store, address)


def check_drain(store: Store, address: str) -> None:
    """Stops the container while a caller waits."""
    answered: list[int] = []
    body = BODY | {"state": "Something else. " + BODY["state"] * 3}
    caller = threading.Thread(target=lambda: answered.append(ask(address, "/invocations", body)[0]))
    caller.start()
    while ask(address, "/health")[1]["requests_in_progress"] == 0:
        pass
    began = time.monotonic()
    store.podman("stop", "-t", "60", CONTAINER, quiet=True)
    caller.join()
    code = store.podman("inspect", "-f", "{{.State.ExitCode}}", CONTAINER, quiet=True).strip()
    say(f"stopped in {time.monotonic() - began:.1f} s")
    check("the caller who waited was answered", answered == [200])
    check("SIGTERM to PID 1 drains and ends with 0", code == "0")


def exec_in(store: Store, *command: str) -> str:
    """Runs a command in the container."""
    return store.podman("exec", CONTAINER, *command, quiet=True)


def main() -> None:
    """Builds and checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="of images; some GB")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF in a folder of its own")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the compiler")
    arguments = parser.parse_args()
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise CheckError(f"no {', '.join(missing)}: apt-get install {' '.join(missing)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    store = Store(arguments.folder.resolve())
    make_base(store)
    build(store, arguments.jobs)
    check_image(store, arguments.model.resolve())


if __name__ == "__main__":
    try:
        main()
    except CheckError as error:
        sys.exit(f"error: {error}")
