"""The error tree, named for what its catcher does about it."""

import pytest

from worker import errors
from worker.errors import (
    AwsUnavailable,
    AwsUnusable,
    CannotRun,
    DeadlinePassed,
    DecodeFailed,
    EngineBusy,
    EngineFailed,
    ExitCode,
    LeaseLost,
    Rejected,
    Retryable,
    UsageError,
    WorkerError,
)


def test_exit_codes_are_documented() -> None:
    """Supervisors rely on these numbers: they never change."""
    assert {
        "DONE": 0,
        "BUG": 1,
        "USAGE": 2,
        "CANNOT_RUN": 3,
        "AWS_UNUSABLE": 4,
        "ENGINE_FAILED": 5,
        "DRAINED_UNFINISHED": 6,
        "FELL_SHORT": 7,
    } == {code.name: int(code) for code in ExitCode}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UsageError("x"), 2),
        (CannotRun("x"), 3),
        (AwsUnusable("x"), 4),
        (EngineFailed("x"), 5),
        (WorkerError("x"), 1),
        (AwsUnavailable("x"), 1),
    ],
)
def test_an_error_knows_its_exit_code(error: WorkerError, expected: int) -> None:
    """What ends the process says how; what should have been caught is a bug."""
    assert expected == error.exit_code


def test_every_error_is_ours() -> None:
    """Whoever catches WorkerError catches all that is raised on purpose."""
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    raised = [value for value in classes if issubclass(value, Exception)]

    assert all(issubclass(value, WorkerError) for value in raised)


@pytest.mark.parametrize(
    "error",
    [EngineBusy(1, 2), DecodeFailed("x"), DeadlinePassed("x"), AwsUnavailable("x")],
)
def test_what_may_work_later_is_retryable(error: WorkerError) -> None:
    """Come back later: the handler releases these, whatever they are."""
    assert isinstance(error, Retryable)


@pytest.mark.parametrize(
    "error", [Rejected("c", "m"), LeaseLost(), EngineFailed(), AwsUnusable("no")]
)
def test_what_will_not_work_later_is_not_retryable(error: WorkerError) -> None:
    """These have reactions of their own, and none of them is to try again."""
    assert not isinstance(error, Retryable)


def test_a_rejection_names_its_place_first() -> None:
    """Code, message and place are kept apart for machines, and joined for people."""
    error = Rejected("invalid_ticket", "field required", "questions.q")

    assert ("invalid_ticket", "field required", "questions.q") == (
        error.code,
        error.message,
        error.where,
    )
    assert "questions.q: field required" == str(error)
    assert "field required" == str(Rejected("invalid_ticket", "field required"))


def test_a_busy_engine_tells_the_numbers() -> None:
    """A caller can see how much waits and how much may."""
    error = EngineBusy(900, 1000, 7)

    assert (900, 1000, 7) == (error.waiting_tokens, error.limit_tokens, error.seconds)
    assert str(error) == (
        "the engine is busy: 900 tokens wait, at most 1000 may; there may be room in 7 seconds"
    )
