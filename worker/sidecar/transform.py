"""Batch transform: JSON lines in, as many lines out, in the same order."""

import asyncio
import json

from worker.errors import Rejected
from worker.sidecar.asking import Asker, Unanswered
from worker.sidecar.refusal import refusal_of

MAX_LINES = 10_000
AT_ONCE = 4
"""Lines that are evaluated side by side: enough to keep every context of a small machine busy."""


def split_lines(body: bytes) -> list[bytes]:
    """Return the lines of a body; a line break at its end begins no line.

    Raises:
        Rejected: there are too many, or none.
    """
    lines = body.removesuffix(b"\n").split(b"\n", MAX_LINES)
    if len(lines) > MAX_LINES:
        raise Rejected("too_large", f"the body has more than {MAX_LINES} lines")
    if not body.strip():
        raise Rejected("invalid_ticket", "the body has no line")
    return lines


async def answer_lines(lines: list[bytes], asker: Asker, request_id: str) -> bytes:
    """Answer every line, or word why it can never be answered.

    Args:
        lines: of the body.
        asker: answers a line.
        request_id: a line's ticket id is this and the line's number, unless it names one.

    Raises:
        Unanswered: a line failed for a reason that may pass, so the whole body may be sent again.
    """
    answers: list[bytes] = [b""] * len(lines)
    waiting = iter(enumerate(lines))

    async def work() -> None:
        for number, line in waiting:
            answers[number] = await _answer(line, asker, f"{request_id}-{number + 1}")

    workers = [asyncio.create_task(work()) for _ in range(min(AT_ONCE, len(lines)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return b"".join(answer + b"\n" for answer in answers)


async def _answer(line: bytes, asker: Asker, ticket_id: str) -> bytes:
    try:
        worded = await asker.answer(line, ticket_id)
    except Unanswered as unanswered:
        if not isinstance(unanswered.error, Rejected):
            raise
        status, error = unanswered.wording.error(refusal_of(unanswered.error))
        worded = {"status": status, **error}
    return json.dumps(worded, ensure_ascii=False, allow_nan=False).encode()
