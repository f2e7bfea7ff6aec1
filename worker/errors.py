"""The error tree, named for what its catcher does about it.

::

    WorkerError
    ├─ UsageError        wrong usage, settings or input files        exit code 2
    ├─ CannotRun         this build or this model cannot run here    exit code 3
    ├─ AwsUnusable       credentials, region, queue, topic           exit code 4
    ├─ EngineFailed      the engine failed and stayed broken         exit code 5
    ├─ Rejected          this ticket can never succeed: say why, once
    ├─ Retryable         not now: come back later
    │  ├─ EngineBusy     more tokens are waiting than the door lets in
    │  ├─ Backlogged     so much goes before that the answer would come too late
    │  ├─ DecodeFailed   llama.cpp refused a call twice
    │  ├─ NotReady       the worker is starting or draining
    │  ├─ DeadlinePassed the answer would come too late
    │  └─ AwsUnavailable a call to AWS failed and may work later
    ├─ Bug               what cannot happen did                      exit code 1
    └─ LeaseLost         the delivery is someone else's now: touch nothing

No message ever holds text of a ticket: messages name places, counts and limits.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its supervisor."""

    DONE = 0
    BUG = 1
    USAGE = 2
    CANNOT_RUN = 3
    AWS_UNUSABLE = 4
    ENGINE_FAILED = 5
    DRAINED_UNFINISHED = 6
    FELL_SHORT = 7


class WorkerError(Exception):
    """Base of every error the worker raises on purpose; never raised itself."""

    exit_code = ExitCode.BUG


class UsageError(WorkerError):
    """The command line, the settings or an input file is wrong."""

    exit_code = ExitCode.USAGE


class CannotRun(WorkerError):
    """This build of llama.cpp, or this model, cannot run on this machine."""

    exit_code = ExitCode.CANNOT_RUN


class AwsUnusable(WorkerError):
    """AWS cannot be used as configured; trying again will not help.

    Args:
        message: one sentence.
        code: AWS's own error code, when there is one.
    """

    exit_code = ExitCode.AWS_UNUSABLE

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class EngineFailed(WorkerError):
    """The engine failed and could not be rebuilt; the process is finished."""

    exit_code = ExitCode.ENGINE_FAILED


_LONGEST_PLACE = 200
_OUR_WORDS = frozenset(
    (
        "",
        "criteria",
        "false",
        "instructions",
        "metadata",
        "model",
        "question_set",
        "questions",
        "state",
        "state_uri",
        "ticket_id",
        "true",
        "type",
    )
)


class Rejected(WorkerError):
    """A ticket that can never succeed.

    Args:
        code: a stable, machine-readable word, such as ``invalid_ticket``.
        message: one sentence for a person, without any text of the ticket.
        where: the place in the ticket, such as ``questions.team.criteria``; may be empty.
    """

    def __init__(self, code: str, message: str, where: str = "") -> None:
        where = where[:_LONGEST_PLACE]
        super().__init__(f"{where}: {message}" if where else message)
        self.code = code
        self.message = message
        self.where = where

    def place_for_log(self) -> str:
        """Return the place without ids and option names, which whoever asked has chosen."""
        parts = self.where.split(".")
        return ".".join(part if part in _OUR_WORDS or part.isdecimal() else "#" for part in parts)


class Retryable(WorkerError):
    """Work that failed for now and may be tried again; base of the kinds below."""


class EngineBusy(Retryable):
    """The engine's door is closed because too many tokens wait already.

    Args:
        waiting_tokens: tokens already waiting.
        limit_tokens: the most that may wait.
        seconds: when there may be room, as far as can be told.
    """

    def __init__(self, waiting_tokens: int, limit_tokens: int, seconds: float = 2.0) -> None:
        super().__init__(
            f"the engine is busy: {waiting_tokens} tokens wait, at most {limit_tokens} may;"
            f" there may be room in {seconds:.0f} seconds"
        )
        self.waiting_tokens = waiting_tokens
        self.limit_tokens = limit_tokens
        self.seconds = seconds


class Backlogged(Retryable):
    """The answer would come after its deadline, because other work goes before.

    Args:
        ahead_tokens: tokens that go before.
        needed_seconds: from now to the answer, as far as can be told.
        left_seconds: from now to the deadline.

    Attributes:
        seconds: when the same work may be in time, as far as can be told.
    """

    def __init__(self, ahead_tokens: int, needed_seconds: float, left_seconds: float) -> None:
        super().__init__(
            f"the engine is busy: {ahead_tokens} tokens go before, so the answer would take"
            f" {needed_seconds:.0f} seconds, and {max(0.0, left_seconds):.0f} are left",
        )
        self.seconds = max(1.0, needed_seconds - left_seconds)


class DecodeFailed(Retryable):
    """llama.cpp refused a call, also on a rebuilt context."""


class DeadlinePassed(Retryable):
    """The work was given up because its answer would come too late."""


class AwsUnavailable(Retryable):
    """A call to AWS failed in a way that may pass."""


class EntryRefused(AwsUnavailable):
    """AWS refused one entry of a batch call for what it says, and took the others."""


class NotReady(Retryable):
    """The worker is starting or draining, and takes nothing now."""


class MadeWay(Retryable):
    """A delivery went back so that one which may end the process takes nothing along."""

    def __init__(self) -> None:
        super().__init__("made way for a delivery that may end the process")


class Bug(WorkerError):
    """Something that cannot happen did; the log has the traceback."""


class OutOfTurn(WorkerError):
    """An earlier message of a FIFO group was not finished, so this one waits on the queue."""


class LeaseLost(WorkerError):
    """The delivery's visibility ran out or was refused; it belongs to someone else."""
