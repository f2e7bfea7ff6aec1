"""Send tickets to workers that are struck again and again, until the queue is empty."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.account import Account, settle
from tests.soak.faults import Fault, Faults
from tests.soak.fleet import Fleet
from tests.soak.place import CREDENTIALS, REGION, Place, open_place
from tests.soak.proxy import FaultProxy
from tests.soak.tickets import CONTEXT_TOKENS, MAX_BODY_BYTES, Kind, make_ticket
from tests.soak.worker import SLOW_SECONDS

_MIX = {Kind.GOOD: 82, Kind.MALFORMED: 10, Kind.OVERSIZE: 6, Kind.SLOW: 2}
_LOW_WATER, _AT_ONCE = 40, 20


@dataclass(frozen=True)
class Plan:
    """What is done to whom.

    Attributes:
        model: a GGUF file.
        seed: of tickets, faults and strikes.
        workers: processes.
        seconds: for which tickets are sent; 0: only *first*.
        first: tickets that are sent at once, by kind.
        poison_seconds: between two poison tickets.
        strike_seconds: least and most between two signals.
        most_strikes: signals in all.
        fault_share: of calls that meet a fault.
        script: faults that are met for certain.
        max_receive_count: of the queue.
        visibility_seconds: of the queue; slow tickets take longer.
        patience_seconds: for the queue to become empty, once all is sent.
    """

    model: Path
    seed: int
    workers: int = 3
    seconds: float = 600.0
    first: Mapping[Kind, int] = field(default_factory=dict)
    poison_seconds: float = 120.0
    strike_seconds: tuple[float, float] = (15.0, 30.0)
    most_strikes: int = 1_000_000
    fault_share: float = 0.05
    script: Sequence[tuple[str, Fault]] = ()
    max_receive_count: int = 10
    visibility_seconds: int = 10
    patience_seconds: float = 420.0


@dataclass
class Report:
    """What happened: the account, and who did what to whom."""

    account: Account
    faults: Faults
    fleet: Fleet
    emptied: bool
    seconds: float


Tell = Callable[[Place, Fleet, tuple[int, int], float], None]


class Soak:
    """One run of a plan.

    Args:
        plan: what to do.
        tell: is told after each round how it stands.
    """

    def __init__(self, plan: Plan, tell: Tell = lambda *_: None) -> None:
        self._plan = plan
        self._tell = tell
        self._chance = random.Random(plan.seed)
        self._made = 0

    async def run(self, emulator_url: str, folder: Path) -> Report:
        """Run on an emulator; caches go into *folder*."""
        plan = self._plan
        faults = Faults(random.Random(plan.seed + 1), plan.fault_share, plan.script)
        proxy = FaultProxy(emulator_url, faults)
        began_at = asyncio.get_running_loop().time()
        async with (
            open_place(
                emulator_url,
                visibility_seconds=plan.visibility_seconds,
                max_receive_count=plan.max_receive_count,
            ) as place,
            proxy.run() as proxy_url,
        ):
            for kind, count in plan.first.items():
                await self._send(place, [kind] * count)
            async with Fleet(plan.workers, self._environment(place, proxy_url, folder)) as fleet:
                await fleet.until_logged("ready")
                emptied = await self._until_empty(place, fleet)
            while await place.collect(1):
                pass
        seconds = asyncio.get_running_loop().time() - began_at
        return Report(settle(place, proxy.seen), faults, fleet, emptied, seconds)

    async def _until_empty(self, place: Place, fleet: Fleet) -> bool:
        """Send, strike and collect; return whether the queue was empty before patience ended."""
        plan, loop = self._plan, asyncio.get_running_loop()
        began_at = loop.time()
        ends_at = began_at + plan.seconds
        poison_at = began_at + plan.poison_seconds / 4
        strike_at = began_at + self._chance.uniform(*plan.strike_seconds)
        while (now := loop.time()) < ends_at + plan.patience_seconds:
            counts = await place.counts()
            self._tell(place, fleet, counts, now - began_at)
            if now >= ends_at and counts == (0, 0):
                return True
            if now < ends_at and sum(counts) < _LOW_WATER:
                kinds = self._chance.choices(list(_MIX), list(_MIX.values()), k=_AT_ONCE)
                await self._send(place, kinds)
            if poison_at <= now < ends_at:
                await self._send(place, [Kind.POISON])
                poison_at += plan.poison_seconds
            # Not before there is something to strike at.
            may_strike = place.outcomes and sum(fleet.strikes.values()) < plan.most_strikes
            if may_strike and now >= strike_at and fleet.strike(self._chance):
                strike_at = now + self._chance.uniform(*plan.strike_seconds)
            await place.collect(1)  # a long poll: the pace of this loop
        return False

    async def _send(self, place: Place, kinds: Sequence[Kind]) -> None:
        tickets = [
            make_ticket(self._made + index, kind, self._chance) for index, kind in enumerate(kinds)
        ]
        self._made += len(tickets)
        await place.send(tickets)

    def _environment(self, place: Place, proxy_url: str, folder: Path) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": proxy_url,
            "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "WORKER_MODEL": str(self._plan.model),
            "WORKER_QUEUE_URL": place.queue_url,
            "WORKER_TOPIC_ARN": place.topic_arn,
            "WORKER_WAIT_SECONDS": "1",
            "WORKER_CONTEXT_TOKENS": str(CONTEXT_TOKENS),
            "WORKER_CONTEXTS": "1",
            "WORKER_THREADS": "1",
            "WORKER_MAX_BODY_BYTES": str(MAX_BODY_BYTES),
            "WORKER_MAX_BACKOFF_SECONDS": "4",
            "WORKER_MAX_IN_HAND": "8",
            "WORKER_DRAIN_SECONDS": "5",
            "WORKER_PROVE_BUILD": "false",
            "WORKER_CACHE_DIR": str(folder),
            SLOW_SECONDS: str(self._plan.visibility_seconds * 1.2),
        }
