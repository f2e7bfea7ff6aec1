"""Show what a worker does now, on a terminal. Pure: figures in, something rich can print out."""

from collections.abc import Iterator
from datetime import UTC, datetime

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from worker.watch.figures import Interval

_BAR_CELLS = 30
_STYLES = {"ready": "bold green", "starting": "bold yellow", "draining": "bold yellow"}
_DISPOSITIONS = {"accept": "green", "review": "yellow", "abstain": "magenta"}


def screen(interval: Interval, url: str) -> RenderableType:
    """Return the whole picture of one interval."""
    return Panel(
        Group(_rows(interval), *_troubles(interval)),
        title=_title(interval, url),
        title_align="left",
        border_style="dim",
    )


def _title(interval: Interval, url: str) -> Text:
    phase = str(interval.now.health.get("phase", "unknown"))
    model = next(iter(interval.now.by("decision_model_info", "name")), "")
    return Text.assemble(
        ("decision-worker ", "bold"),
        url,
        "  ",
        (phase, _STYLES.get(phase, "bold red")),
        f"  {model}",
    )


def _rows(interval: Interval) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in (
        ("tickets", _tickets(interval)),
        ("backlog", _backlog(interval)),
        ("lanes", _lanes(interval)),
        ("tokens", _tokens(interval)),
        ("time", _times(interval)),
        ("callers", _callers(interval)),
        ("dispositions", _dispositions(interval)),
        ("failures", _failures(interval)),
    ):
        table.add_row(name, value)
    return table


def _tickets(interval: Interval) -> Text:
    name = "decision_deliveries_finished_total"
    ended = interval.now.by(name, "result")
    shown = (f"{result} {count:,.0f}" for result, count in sorted(ended.items()) if count)
    return Text(f"{interval.rate(name):.1f}/s   " + "   ".join(shown))


def _backlog(interval: Interval) -> Text:
    now, health = interval.now, interval.now.health
    polled_at = health.get("last_successful_poll_timestamp_seconds")
    parts = [
        f"{now.sum('decision_deliveries_in_hand'):.0f} in hand",
        f"{now.sum('decision_engine_waiting_tokens'):,.0f} tokens wait",
    ]
    if polled_at:
        parts.append(f"last poll {datetime.fromtimestamp(polled_at, UTC):%H:%M:%S} UTC")
    return Text("   ".join(parts))


def _lanes(interval: Interval) -> Text:
    """Return what the engine's door let in and refused, lane by lane."""
    admitted, refused = "decision_engine_admissions_total", "decision_engine_refusals_total"
    lanes = sorted(interval.now.by(admitted, "lane").keys() | interval.now.by(refused, "lane"))
    text = Text("   ".join(f"{lane} {interval.rate(admitted, lane=lane):.1f}/s" for lane in lanes))
    for lane in lanes:
        if rate := interval.rate(refused, lane=lane):
            text.append(f"   {lane} refused {rate:.1f}/s", "red")
    if most := interval.now.sum("decision_engine_capacity_tokens"):
        held = interval.now.sum("decision_engine_resident_tokens")
        text.append(f"   {held:,.0f} of {most:,.0f} tokens resident")
    return text


def _tokens(interval: Interval) -> Text:
    evaluated = interval.rate("decision_evaluated_tokens_total")
    reused = interval.rate("decision_reused_trunk_tokens_total")
    most = interval.now.sum("decision_engine_tokens_per_second")
    text = Text(f"{evaluated:,.0f}/s   {reused:,.0f}/s reused   ")
    if most:
        share = min(1.0, evaluated / most)
        filled = round(share * _BAR_CELLS)
        text.append("█" * filled, "cyan")
        text.append("░" * (_BAR_CELLS - filled), "dim")
        text.append(f" {share:.0%} of {most:,.0f}/s when busy")
    return text


def _times(interval: Interval) -> Text:
    found = []
    for phase in ("waiting", "evaluating"):
        mean = interval.mean("decision_engine_seconds", phase=phase)
        if mean is not None:
            found.append(f"{phase} {mean:.2f} s")
    stalled = interval.now.sum("decision_engine_stalled_seconds")
    if stalled >= 1:
        found.append(f"one call lasts {stalled:.0f} s")
    return Text("   ".join(found) or "nothing evaluated")


def _callers(interval: Interval) -> Text:
    return Text(
        f"{interval.now.sum('decision_http_in_progress'):.0f} in progress"
        f"   {interval.rate('decision_http_requests_total'):.1f}/s answered"
        f"   {interval.rate('decision_http_refused_total'):.1f}/s refused"
    )


def _dispositions(interval: Interval) -> Text:
    counts = interval.now.by("decision_decisions_total", "disposition")
    total = sum(counts.values())
    text = Text()
    for name, style in _DISPOSITIONS.items():
        share = counts.get(name, 0.0) / total if total else 0.0
        text.append(f"{name} {share:.0%}   ", style)
    return text.append(f"of {total:,.0f} decisions")


def _failures(interval: Interval) -> Text:
    now = interval.now
    counts = {
        "polls": now.sum("decision_poll_failures_total"),
        "calls of llama.cpp": now.sum("decision_decode_failures_total"),
        "leases lost": now.sum("decision_deliveries_finished_total", result="lost"),
    }
    style = "red" if any(counts.values()) else ""
    return Text("   ".join(f"{name} {count:,.0f}" for name, count in counts.items()), style)


def _troubles(interval: Interval) -> Iterator[RenderableType]:
    troubles = interval.now.health.get("last_troubles") or ()
    if not troubles:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", title_justify="left")
    for column in ("last troubles", "UTC", "level"):
        table.add_column(column)
    for trouble in reversed(troubles):
        style = "red" if trouble["level"] != "warning" else ""
        row = (trouble["event"], trouble["at"], trouble["level"])
        table.add_row(*(Text(str(value), style) for value in row))
    yield table
