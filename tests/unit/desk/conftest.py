"""Desk tests run in virtual time: see tests/virtual_time.py."""

from collections.abc import Callable, Mapping

from tests.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    return {"virtual time": VirtualTimeLoop}
