"""Draw how speed grows with one thing at a time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")  # no display is needed

from matplotlib import pyplot as plt


def draw(
    medians: Mapping[str, Mapping[str, float]],
    growth: Mapping[str, Sequence[tuple[int, str]]],
    ways: Sequence[str],
    path: Path,
) -> None:
    """Draw tokens per second.

    Args:
        medians: tokens per second, by row and way.
        growth: what grows, and of each point its value and its row.
        ways: a line each.
        path: of the picture, in SVG.
    """
    figure, panels = plt.subplots(
        1, len(growth), figsize=(4 * len(growth), 3.6), sharey=True, layout="constrained"
    )
    for panel, (name, points) in zip(panels, growth.items(), strict=True):
        values = [value for value, _ in points]
        for way in ways:
            style = "--" if way == "limit" else "-o"
            speeds = [medians[row][way] for _, row in points]
            panel.plot(values, speeds, style, label=way, markersize=4)
        panel.set_xscale("log", base=2)
        panel.set_xticks(values, [str(value) for value in values])
        panel.set_xlabel(name)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("evaluated tokens per second")
    panels[0].set_ylim(bottom=0)
    panels[-1].legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
