"""What every test starts from: a clean environment and a plain log."""

import os
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# No deadline: a busy machine is not a bug. The same examples every time: a red run stays red.
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.load_profile("tests")


def pytest_unconfigure() -> None:
    """Close two handles that llama_cpp leaves open: their warnings would be the last lines."""
    if utils := sys.modules.get("llama_cpp._utils"):
        utils.outnull_file.close()
        utils.errnull_file.close()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "WORKER_")):
            monkeypatch.delenv(name)


@pytest.fixture
def _aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials and a region that no real account has, for clients of the emulator."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(autouse=True)
def _plain_log() -> Iterator[None]:
    # Not the default: that draws tracebacks with all local variables, which takes seconds.
    structlog.configure(processors=[structlog.processors.KeyValueRenderer()])
    structlog.contextvars.clear_contextvars()
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
