"""Will the overnight batch be done by six? Simulates arrivals, scaling, service and drain.

A task answers one ticket at a time. Once a minute the scaling compares waiting tickets with what
each task should have, asks for tasks that start after a delay, and lets idle ones go.

    python infra/simulate.py --tickets 20000 --seconds 4 --most-tasks 10 --plot night.png
"""

import argparse
import heapq
import math
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

CHECK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the number of tasks follows the backlog.

    Attributes:
        least: tasks that stay.
        most: tasks that there may be.
        tickets_each: waiting tickets that each task should have.
        start_seconds: from asking for a task until it takes tickets: image, model, loading.
        idle_seconds: how long too many tasks must be seen before idle ones go.
    """

    least: int
    most: int
    tickets_each: float = 75
    start_seconds: float = 180
    idle_seconds: float = 300

    def wanted(self, waiting: int) -> int:
        """Return the tasks that so many waiting tickets call for."""
        return min(self.most, max(self.least, math.ceil(waiting / self.tickets_each)))


@dataclass(slots=True)
class Night:
    """What came of it, in seconds from the start.

    Attributes:
        waits: from a ticket's arrival until a task takes it.
        done_at: when the last ticket was finished.
        task_seconds: what is paid for, from a task's request to its end.
        trace: time, waiting tickets, running tasks; once a minute.
    """

    waits: list[float] = field(default_factory=list)
    done_at: float = 0.0
    task_seconds: float = 0.0
    trace: list[tuple[float, int, int]] = field(default_factory=list)


def simulate(arrivals: Iterable[float], service: Callable[[], float], scaling: Scaling) -> Night:
    """Run until every ticket is answered.

    Args:
        arrivals: when tickets come, ascending.
        service: draws the seconds that a task needs for one.
        scaling: starts with its least tasks running.
    """
    return _Simulation(iter(arrivals), service, scaling).run()


class _Simulation:
    def __init__(
        self, arrivals: Iterator[float], service: Callable[[], float], scaling: Scaling
    ) -> None:
        self.arrivals, self.service, self.scaling = arrivals, service, scaling
        self.waiting: deque[float] = deque()
        self.running, self.busy, self.starting = scaling.least, 0, 0
        self.too_many_since: float | None = None
        self.more_to_come = True
        self.night = Night()
        self.events: list[tuple[float, bool, int, Callable[[float], None]]] = []
        self.number = 0

    def run(self) -> Night:
        self._next_arrival()
        self._at(0.0, self._check, is_check=True)
        before = 0.0
        while self.events:
            now, *_, happen = heapq.heappop(self.events)
            self.night.task_seconds += (now - before) * (self.running + self.starting)
            before = now
            happen(now)
        return self.night

    def _at(self, when: float, happen: Callable[[float], None], *, is_check: bool = False) -> None:
        # At one time the scaling looks last; else what was planned first comes first.
        self.number += 1
        heapq.heappush(self.events, (when, is_check, self.number, happen))

    def _next_arrival(self) -> None:
        when = next(self.arrivals, None)
        if when is None:
            self.more_to_come = False
        else:
            self._at(when, self._arrive)

    def _arrive(self, now: float) -> None:
        self.waiting.append(now)
        self._next_arrival()
        self._take(now)

    def _take(self, now: float) -> None:
        while self.waiting and self.busy < self.running:
            self.night.waits.append(now - self.waiting.popleft())
            self.busy += 1
            self._at(now + self.service(), self._finish)

    def _finish(self, now: float) -> None:
        self.busy -= 1
        self.night.done_at = now
        self._take(now)

    def _start(self, now: float) -> None:
        self.starting -= 1
        self.running += 1
        self._take(now)

    def _check(self, now: float) -> None:
        self.night.trace.append((now, len(self.waiting), self.running))
        wanted = self.scaling.wanted(len(self.waiting))
        there = self.running + self.starting
        for _ in range(wanted - there):
            self.starting += 1
            self._at(now + self.scaling.start_seconds, self._start)
        self._let_go(now, there - wanted)
        if (
            self.more_to_come
            or self.waiting
            or self.busy
            or self.starting
            or not self._is_at_rest()
        ):
            self._at(now + CHECK_SECONDS, self._check, is_check=True)

    def _is_at_rest(self) -> bool:
        return self.starting == 0 and self.running == self.scaling.least

    def _let_go(self, now: float, too_many: int) -> None:
        if too_many <= 0:
            self.too_many_since = None
            return
        if self.too_many_since is None:
            self.too_many_since = now
        if now - self.too_many_since >= self.scaling.idle_seconds:
            # A busy task protects itself.
            self.running -= min(too_many, self.running - self.busy)


def draw(night: Night, path: Path, begin: datetime, due: float) -> None:
    """Draw waiting tickets and running tasks over the night."""
    from matplotlib.dates import DateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    tickets = figure.subplots()
    tasks = tickets.twinx()
    hours = [begin + timedelta(seconds=now) for now, _, _ in night.trace]
    tickets.fill_between(hours, [waiting for _, waiting, _ in night.trace], alpha=0.4)
    tasks.step(hours, [running for _, _, running in night.trace], "C1", where="post")
    tickets.axvline(begin + timedelta(seconds=due), color="C3", linestyle="--")
    tickets.set_ylabel("tickets waiting (area)")
    tasks.set_ylabel("tasks (line)")
    tickets.set_title("dashed: when all must be done")
    tickets.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    figure.savefig(path)


def main() -> int:
    """Simulate one night; exit with 7 when it ends too late."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tickets", type=int, required=True, help="of the batch, sent at once")
    parser.add_argument("--hourly", type=float, default=0, help="tickets that trickle in beside")
    parser.add_argument("--seconds", type=float, required=True, help="mean of a ticket on one task")
    parser.add_argument("--least-tasks", type=int, default=0)
    parser.add_argument("--most-tasks", type=int, default=10)
    parser.add_argument("--tickets-each", type=float, default=75, help="BacklogPerTask")
    parser.add_argument("--start-seconds", type=float, default=180, help="until a task takes one")
    parser.add_argument("--begin", default="22:00")
    parser.add_argument("--by", default="06:00")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="PNG or SVG")
    given = parser.parse_args()
    begin, by = (datetime.strptime(text, "%H:%M") for text in (given.begin, given.by))  # noqa: DTZ007
    due = ((by - begin) % timedelta(days=1)).total_seconds()
    chance = random.Random(given.seed)  # noqa: S311 - no secret

    def trickle() -> Iterator[float]:
        now = 0.0
        while given.hourly and (now := now + chance.expovariate(given.hourly / 3600)) < due:
            yield now

    night = simulate(
        [*[0.0] * given.tickets, *trickle()],
        # Long documents count: exponential service has a heavier tail than most desks.
        lambda: chance.expovariate(1 / given.seconds),
        Scaling(given.least_tasks, given.most_tasks, given.tickets_each, given.start_seconds),
    )
    if given.plot:
        draw(night, given.plot, begin, due)
    in_time = night.done_at <= due
    done = begin + timedelta(seconds=night.done_at)
    days = f" after {(done - begin).days} days" if done - begin >= timedelta(days=1) else ""
    print(
        f"{'in time' if in_time else 'too late'}: done at {done:%H:%M}{days}, due at {by:%H:%M};"
        f" at most {max(running for _, _, running in night.trace)} tasks,"
        f" {night.task_seconds / 3600:.1f} task hours"
    )
    return 0 if in_time else 7


if __name__ == "__main__":
    sys.exit(main())
