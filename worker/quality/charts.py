"""Pictures of a run as SVG text, with classes instead of colours: those are the page's choice."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from worker.quality.measures import Flags, Floats
from worker.quality.reliability import Bin
from worker.quality.selective import Point

_WIDTH, _HEIGHT = 360, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 12, 44
PLOT_LEFT, PLOT_WIDTH = _LEFT, _WIDTH - _LEFT - _RIGHT
"""Where a plot begins in its picture, and how wide it is: for scripts that draw in it."""

_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TICK_STEPS = len(_TICKS) - 1
_HISTOGRAM_BINS = 20
_LONGEST_NAME = 14


@dataclass(frozen=True, slots=True)
class _Frame:
    """The place of a unit square in a picture, with its axes' names."""

    x: str
    y: str
    most: float = 1.0

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point of the plot lies in the picture."""
        across = _LEFT + x * (_WIDTH - _LEFT - _RIGHT)
        down = _HEIGHT - _BOTTOM - y / self.most * (_HEIGHT - _TOP - _BOTTOM)
        return round(across, 2), round(down, 2)

    def draw(self, title: str, parts: Iterable[str]) -> str:
        """Return the picture with axes around *parts*."""
        lines = []
        for tick in _TICKS:
            x, bottom = self.at(tick, 0)
            left, y = self.at(0, tick * self.most)
            lines += [
                f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>',
                f'<line class="grid" x1="{left}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}"/>',
                _text("tick", x, bottom + 16, f"{tick:g}"),
                _text("tick", left - 6, y + 4, f"{tick * self.most:g}", anchor="end"),
            ]
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        centre = (_TOP + _HEIGHT - _BOTTOM) / 2
        lines += [
            _text("axis", middle, _HEIGHT - 8, self.x),
            _text("axis", 12, centre, self.y, turned=-90),
        ]
        return _picture(title, [*lines, *parts])


def reliability_diagram(bins: Sequence[Bin]) -> str:
    """Draw how often answers are right against how sure they are; bigger dots, more answers."""
    frame = _Frame("probability of the answer", "share that is right")
    parts = [_line("ideal", [frame.at(0, 0), frame.at(1, 1)])]
    most = max((one.count for one in bins), default=1)
    for one in bins:
        x, y = frame.at(one.confidence, one.accuracy)
        _, ideal = frame.at(one.confidence, one.confidence)
        radius = 3 + 5 * (one.count / most) ** 0.5
        parts += [
            f'<line class="gap" x1="{x}" y1="{y}" x2="{x}" y2="{ideal}"/>',
            f'<circle class="dot" cx="{x}" cy="{y}" r="{radius:.1f}"><title>{one.count} answers:'
            f" sure {one.confidence:.3f}, right {one.accuracy:.3f}</title></circle>",
        ]
    return frame.draw("Reliability", parts)


def risk_coverage_curve(curve: Sequence[Point]) -> str:
    """Draw the share of wrong answers among those that are accepted, the surest first."""
    frame = _Frame("share accepted", "share wrong of those")
    points = [frame.at(one.coverage, one.risk) for one in curve]
    x, bottom = frame.at(1, 0)
    chosen = f'<line class="chosen" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>'
    return frame.draw("Risk and coverage", [_line("curve", points), chosen])


def confidence_histogram(confidence: Floats, right: Flags) -> str:
    """Draw how many answers are how sure; those that are wrong on top."""
    edges = np.linspace(0, 1, _HISTOGRAM_BINS + 1)
    good, _ = np.histogram(confidence[right], edges)
    bad, _ = np.histogram(confidence[~right], edges)
    most = _TICK_STEPS * math.ceil((good + bad).max(initial=1) / _TICK_STEPS)  # whole at each tick
    frame = _Frame("probability of the answer", "answers", float(most))
    parts = []
    for left, one, other in zip(edges, good, bad, strict=False):
        for name, low, count in (("right", 0, int(one)), ("wrong", int(one), int(other))):
            if count:
                x, top = frame.at(float(left), low + count)
                end, bottom = frame.at(float(left) + 1 / _HISTOGRAM_BINS, low)
                parts.append(
                    f'<rect class="{name}" x="{x + 0.5}" y="{top}" width="{end - x - 1:.2f}"'
                    f' height="{bottom - top:.2f}"><title>{count} {name}</title></rect>'
                )
    return frame.draw("How sure the answers are", parts)


def confusion_matrix(matrix: Sequence[Sequence[int]], options: Sequence[str]) -> str:
    """Draw how often each option was answered (column) where each was right (row)."""
    count = max(1, len(options))
    left, bottom = 104, 84
    cell = min((_WIDTH - left - _RIGHT) / count, (_HEIGHT - _TOP - bottom) / count)
    parts = []
    for row, counts in enumerate(matrix):
        total = max(1, sum(counts))
        middle = _TOP + (row + 0.5) * cell
        parts.append(_text("tick", left - 6, middle + 4, _short(options[row]), anchor="end"))
        for column, value in enumerate(counts):
            x, y = left + column * cell, _TOP + row * cell
            name = "hit" if row == column else "miss"
            parts.append(
                f'<rect class="{name}" style="fill-opacity:{value / total:.3f}" x="{x:.1f}"'
                f' y="{y:.1f}" width="{cell:.1f}" height="{cell:.1f}"><title>'
                f"{escape(options[row])} answered as {escape(options[column])}: {value}"
                "</title></rect>"
            )
            if value and cell >= 14:
                parts.append(_text("count", x + cell / 2, y + cell / 2 + 4, str(value)))
    for column, option in enumerate(options):
        x, y = left + (column + 0.5) * cell, _TOP + count * cell + 10
        parts.append(_text("tick", x, y, _short(option), anchor="end", turned=-45))
    return _picture("Right (rows) and answered (columns)", parts)


def _picture(title: str, parts: Iterable[str]) -> str:
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{title}">{"".join(parts)}</svg></figure>'
    )


def _text(
    name: str, x: float, y: float, text: str, *, anchor: str = "middle", turned: int = 0
) -> str:
    turn = f' transform="rotate({turned} {x:.1f} {y:.1f})"' if turned else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{name}" {place}{turn}>{escape(text)}</text>'


def _line(name: str, points: Sequence[tuple[float, float]]) -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline class="{name}" points="{path}"/>'


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
