"""An application of ours on a socket."""

from aiohttp import web

from worker.errors import UsageError
from worker.sidecar.protocol import MAX_LINE_BYTES, Runner

# Draining is over by then: this is for connections that never finish their request.
_CLOSE_SECONDS = 1.0
# A caller who sends no head, or nothing more, keeps a connection no longer than that.
_IDLE_SECONDS = 75.0


class Listener:
    """Answers on one address with one application.

    Args:
        application: its routes and middleware.
    """

    def __init__(self, application: web.Application) -> None:
        self._runner = Runner(
            application,
            # A caller who hangs up cancels the handler, and with it the work.
            handler_cancellation=True,
            # Encodings are undone within limits of our own: see body.py.
            auto_decompress=False,
            keepalive_timeout=_IDLE_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            access_log=None,
            shutdown_timeout=_CLOSE_SECONDS,
        )
        self.port = 0

    async def listen(self, host: str, port: int) -> None:
        """Accept connections.

        Args:
            host: the address to listen on.
            port: the port; 0 takes a free one.

        Raises:
            UsageError: the address cannot be listened on.
        """
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except (OSError, UnicodeError) as error:
            await self._runner.cleanup()
            reason = getattr(error, "strerror", None) or "not a host name"
            raise UsageError(f"cannot listen on {host}:{port}: {reason}") from error
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Close the socket and what is left of its connections."""
        await self._runner.cleanup()
