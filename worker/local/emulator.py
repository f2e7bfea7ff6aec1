"""An AWS emulator in this process, on a free loopback port."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from worker.errors import UsageError

HOST = "127.0.0.1"


@contextmanager
def run_emulator() -> Iterator[str]:
    """Run moto's server while the body runs; yield its URL.

    Raises:
        UsageError: the emulator is not installed.
    """
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise UsageError(
            "the local emulator is not installed: pip install 'decision-worker[local]'"
        ) from error
    # One line for each request would drown everything else.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=HOST, port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield f"http://{HOST}:{port}"
    finally:
        server.stop()
