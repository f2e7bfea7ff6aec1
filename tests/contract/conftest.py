"""What the contract tests run on: each emulator once."""

from collections.abc import Iterator

import pytest

from tests import emulators


@pytest.fixture(scope="session")
def emulator_url() -> Iterator[str]:
    with emulators.moto() as url:
        yield url


@pytest.fixture(scope="session")
def ministack_url() -> Iterator[str]:
    with emulators.ministack() as url:
        yield url
