"""All settings as one model, and what they must be together."""

from typing import Self

from pydantic import model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from worker.settings.decisions import DecisionsSettings
from worker.settings.engine import EngineSettings
from worker.settings.model import ModelSettings
from worker.settings.process import ProcessSettings
from worker.settings.queue import QueueSettings
from worker.settings.sidecar import SidecarSettings

PREFIX = "WORKER_"
# Between the last poll's return and the kill: closing clients, flushing logs.
_STOP_MARGIN_SECONDS = 2


class Settings(
    ProcessSettings,
    SidecarSettings,
    QueueSettings,
    DecisionsSettings,
    EngineSettings,
    ModelSettings,
    BaseSettings,
):
    """One frozen model: field ``queue_url`` is flag ``--queue-url`` and ``WORKER_QUEUE_URL``.

    The groups are listed from the last to the first, since pydantic collects fields that way.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=False,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        faults = [*self._lease_faults(), *self._stop_faults()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _stop_faults(self) -> list[str]:
        polls = self.queue_url is not None
        wait_seconds = self.wait_seconds if polls else 0
        needed = wait_seconds + self.drain_seconds + _STOP_MARGIN_SECONDS
        if needed <= self.stop_window_seconds:
            return []
        terms = "wait_seconds + drain_seconds" if polls else "drain_seconds"
        return [
            f"{terms} + {_STOP_MARGIN_SECONDS} is {needed:g},"
            f" more than stop_window_seconds ({self.stop_window_seconds:g})"
        ]
