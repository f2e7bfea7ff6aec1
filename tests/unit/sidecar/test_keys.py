"""Bearer keys."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.sidecar.bench import make_request, open_bench
from worker.errors import UsageError
from worker.sidecar.keys import Keys


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("# ours\nfirst-key\n\n  second-key  \n")
    return path


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        ("Bearer first-key", True),
        ("bearer second-key", True),
        ("Bearer  second-key ", True),
        (None, False),
        ("", False),
        ("Bearer", False),
        ("Bearer ", False),
        ("Bearer first-ke", False),
        ("Bearer first-key2", False),
        ("Bearer # ours", False),
        ("Basic first-key", False),
        ("first-key", False),
        ("Bearer \udcff", False),
    ],
)
def test_any_key_of_the_file(path: Path, authorization: str | None, admitted: bool) -> None:
    """Whole keys only, under the scheme Bearer."""
    assert admitted == Keys(path).admit(authorization)


def test_keys_are_read_again(path: Path) -> None:
    """New keys come in, old ones go out; a file that is wrong changes nothing."""
    keys = Keys(path)
    path.write_text("third-key")
    asyncio.run(keys.reload())
    path.write_text("")
    asyncio.run(keys.reload())

    assert (True, False) == (keys.admit("Bearer third-key"), keys.admit("Bearer first-key"))


@pytest.mark.parametrize("content", [b"", b"# none\n", b"\xff", b"two words", "schlüssel".encode()])
def test_a_file_that_is_wrong(path: Path, content: bytes) -> None:
    """Said at the start, without the keys."""
    path.write_bytes(content)
    with pytest.raises(UsageError, match="api_keys_file") as caught:
        Keys(path)

    assert "words" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Wrong usage, not a traceback."""
    with pytest.raises(UsageError, match="No such file"):
        Keys(tmp_path / "none")


async def test_who_has_no_key_gets_in_nowhere_but_at_the_probes(path: Path) -> None:
    """401 in System One's shape; ``/ping`` and ``/metrics`` are for the platform."""
    async with open_bench(keys=Keys(path)) as bench:
        refused = [
            await bench.post(make_request()),
            await bench.post(make_request(), "/v1/systemone", Authorization="Bearer wrong"),
            await bench.get("/v1/models"),
            await bench.get("/health"),
            await bench.get("/openapi.json"),
            await bench.get("/nowhere"),
        ]
        admitted = [
            await bench.get("/ping"),
            await bench.get("/metrics"),
            await bench.post(make_request(), Authorization="Bearer first-key"),
        ]
        evaluations = bench.engine.evaluations

    assert {401} == {answered.status for answered in refused}
    assert {"authentication_error"} == {a.body["detail"]["error_type"] for a in refused}
    assert {"Bearer"} == {answered.headers["WWW-Authenticate"] for answered in refused}
    assert {200} == {answered.status for answered in admitted}
    assert 1 == len(evaluations)


async def test_the_probes_can_be_guarded(path: Path) -> None:
    """When told so, they need a key as well."""
    async with open_bench(keys=Keys(path), guard_probes=True) as bench:
        refused = [await bench.get(route) for route in ("/ping", "/metrics")]
        admitted = await bench.get("/ping", headers={"Authorization": "Bearer first-key"})

    assert ([401, 401], 200) == ([answered.status for answered in refused], admitted.status)


async def test_without_keys_any_authorization_is_ignored() -> None:
    """A client that always sends a key works where none is asked for."""
    async with open_bench() as bench:
        answered = await bench.post(make_request(), Authorization="Bearer whatever")

    assert 200 == answered.status
