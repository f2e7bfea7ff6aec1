"""Write docs/logs.md: every event that the worker logs, from the list in the code."""

from pathlib import Path

from worker.events import EVENTS

PAGE = Path(__file__).parents[1] / "docs" / "logs.md"

HEAD = """# Logs

Made by `make tables` from `worker/events.py`; do not edit.

Events go to standard error, one a line: JSON, or colours on a terminal (`--log-format`), from
`--log-level` on. Each has `event`, `level` and `timestamp` (UTC). What is logged while a delivery
is carried has its `message_id` and `receive_count` as well, and once they are known `ticket_id`,
`trace_id` and `outcome_id`; what is logged while a request is answered has `request_id`,
`ticket_id` and the caller's `trace_id`. There is one line for each delivery, `delivery_finished`,
with its `result` and `seconds`, and one for each request, `request_finished`, with its `status`.

**Sampling.** `--log-share 0.01` logs one of a hundred of those lines, and all of them for what was
not decided: rejected, released, kept, lost or failed, or a status of 400 and more. Which tickets
are told depends on their ids alone: the same ones again when they come again. No other event is
ever left out.

**No text of a ticket** is in any event, nor the message of an exception that is not ours. Ids are
there: a ticket's id is the sender's choice, so it should not be a name or an address.

| event | |
| --- | --- |
"""


def page() -> str:
    """Return the page."""
    return HEAD + "".join(f"| `{name}` | {meaning} |\n" for name, meaning in EVENTS.items())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
