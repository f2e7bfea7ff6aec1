"""A port of its own for those who watch the worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from worker.lifecycle import Lifecycle
from worker.sidecar.listening import Listener
from worker.sidecar.middleware import make_middleware
from worker.sidecar.probes import Probes

_log = structlog.get_logger()


@asynccontextmanager
async def open_monitoring(
    lifecycle: Lifecycle, probes: Probes, host: str, port: int
) -> AsyncIterator[int]:
    """Answer ``/metrics``, ``/health`` and ``/ping`` without keys, and nothing else.

    Args:
        lifecycle: of the process.
        probes: what is answered.
        host: the address to listen on.
        port: the port; 0 takes a free one.

    Yields:
        The port.

    Raises:
        UsageError: the address cannot be listened on.
    """
    application = web.Application(
        middlewares=[make_middleware(lifecycle, None, guard_probes=False)]
    )
    probes.add_to(application)
    listener = Listener(application)
    await listener.listen(host, port)
    _log.info("metrics_port_opened", host=host, port=listener.port)
    try:
        yield listener.port
    finally:
        await listener.close()
