"""Worker processes that are started again whatever ends them."""

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

COMMAND = (sys.executable, "-m", "tests.soak.worker")
EXPECTED_CODES = (0, 5, 6, -signal.SIGKILL)
"""Drained, broken by a poison ticket, drained with work left, killed."""
_TAIL_LINES = 40


@dataclass
class _Slot:
    process: asyncio.subprocess.Process | None = None
    is_ready: bool = False
    is_struck: bool = False
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))


class Fleet:
    """So many workers.

    Attributes:
        events: how often each event was logged.
        codes: how often a process ended with which exit code.
        strikes: signals sent, by name.
        faults: what a worker wrote last before it ended as it never should.
    """

    def __init__(self, size: int, environment: Mapping[str, str]) -> None:
        self._environment = {**_without_settings(), **environment}
        self._slots = [_Slot() for _ in range(size)]
        self._keepers: list[asyncio.Task[None]] = []
        self._closing = False
        self._logged = asyncio.Event()
        self.events: Counter[str] = Counter()
        self.codes: Counter[int] = Counter()
        self.strikes: Counter[str] = Counter()
        self.faults: list[str] = []

    @property
    def starts(self) -> int:
        return sum(self.codes.values()) + sum(slot.process is not None for slot in self._slots)

    async def __aenter__(self) -> "Fleet":
        self._keepers = [asyncio.create_task(self._keep(slot)) for slot in self._slots]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def until_logged(self, event: str, times: int = 1) -> None:
        """Wait until workers have logged an event so often."""
        while self.events[event] < times:
            self._logged.clear()
            await self._logged.wait()

    def strike(self, chance: random.Random, number: signal.Signals | None = None) -> bool:
        """Send a signal to a worker that is ready; return whether there was one."""
        ready = [slot for slot in self._slots if slot.is_ready and not slot.is_struck]
        if not ready:
            return False
        slot = chance.choice(ready)
        process, slot.is_struck = slot.process, True
        number = number or chance.choice((signal.SIGKILL, signal.SIGTERM))
        assert process is not None
        with suppress(ProcessLookupError):
            process.send_signal(number)
            self.strikes[number.name] += 1
        return True

    async def close(self) -> None:
        """Let all drain, and start none again."""
        self._closing = True
        for slot in self._slots:
            if slot.process is not None and not slot.is_struck:  # a second one is no drain
                with suppress(ProcessLookupError):
                    slot.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*self._keepers)
        finally:
            for slot in self._slots:
                if slot.process is not None:
                    with suppress(ProcessLookupError):
                        slot.process.kill()

    async def _keep(self, slot: _Slot) -> None:
        while not self._closing:
            slot.process = await asyncio.create_subprocess_exec(
                *COMMAND,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                limit=2**20,
            )
            if self._closing:  # asked to stop while it was being started
                slot.process.send_signal(signal.SIGTERM)
            await self._read(slot, slot.process)
            code = await slot.process.wait()
            slot.process, slot.is_ready, slot.is_struck = None, False, False
            # A stop that comes before signals are handled kills, as it should.
            self.codes[0 if self._closing and code == -signal.SIGTERM else code] += 1
            if code not in EXPECTED_CODES and not self._closing:
                self.faults.append(f"exit code {code}:\n" + "".join(slot.tail))

    async def _read(self, slot: _Slot, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            text = line.decode(errors="replace")
            slot.tail.append(text)
            if text.startswith("{"):
                event = json.loads(text)["event"]
                slot.is_ready = event == "ready" or (slot.is_ready and event != "drain_started")
                self.events[event] += 1
                self._logged.set()


def _without_settings() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "WORKER_"))
    }
