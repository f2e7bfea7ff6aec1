"""Who is answered over HTTP, and for how long."""

import ipaddress

from pydantic import BaseModel

from worker.settings.fields import Folder, setting_of

setting = setting_of("Sidecar")


class SidecarSettings(BaseModel):
    """Who is answered over HTTP, and for how long."""

    host: str = setting("127.0.0.1", "address to listen on", min_length=1)
    port: int | None = setting(None, "port to listen on", ge=0, le=65_535)
    request_seconds: float = setting(
        55.0, "time for one answer, else 504; SageMaker waits 60", gt=0
    )
    body_seconds: float = setting(10.0, "time for a request's body to arrive, else 408", gt=0)
    max_callers: int = setting(256, "requests in progress at once, else 503", ge=1)
    stall_seconds: float = setting(
        120.0, "work without progress for so long makes /ping say 503", gt=0
    )
    api_keys_file: Folder | None = setting(
        None, "file of bearer keys, one a line; SIGHUP reads it again"
    )
    guard_probes: bool = setting(False, "ask for a key at /ping and /metrics, too")
    open_to_all: bool = setting(False, "answer without keys on an address that others can reach")

    def is_local(self) -> bool:
        """Return whether only this machine can reach the sidecar."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
