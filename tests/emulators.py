"""AWS emulators on a socket of this machine."""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moto.server import ThreadedMotoServer

REGION = "us-east-1"
CREDENTIALS = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
_PATIENCE_SECONDS = 60.0
_MINISTACK_PYTHON = Path(__file__).parents[1] / ".venv-emulators" / "bin" / "python"


@contextmanager
def moto() -> Iterator[str]:
    """Run moto's server in this process; yield its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def ministack() -> Iterator[str]:
    """Run ministack from its own venv, which `make test-emulators` makes; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(_MINISTACK_PYTHON), "-m", "ministack"],
        env={"PATH": os.environ["PATH"], "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/_ministack/health", process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=_PATIENCE_SECONDS)


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    tried_until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            urllib.request.urlopen(url).close()
            return
        except OSError:
            assert process.poll() is None, "the emulator ended"
            assert time.monotonic() < tried_until, "the emulator does not answer"
            time.sleep(0.1)  # between two looks at a socket that nobody announces
