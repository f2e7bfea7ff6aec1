"""Files of whoever runs the worker: a folder and S3, on moto over a socket, promise the same."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import aioboto3
import boto3
import pytest
import structlog
from moto.server import ThreadedMotoServer

from tests.factories import QUESTIONS
from worker.decision.strict_file import MAX_FILE_BYTES
from worker.errors import AwsUnusable, UsageError, WorkerError
from worker.library import open_policy, open_shelf
from worker.queue.aws import Connection
from worker.queue.s3 import open_documents
from worker.queue.s3_files import S3File, S3Folder
from worker.settings import Settings, load_settings
from worker.shelf import BookShelf, Folder, Source

BUCKET = "rules"


class Place(Protocol):
    """Somewhere files can be put."""

    def put(self, name: str, content: bytes) -> None: ...

    def remove(self, name: str) -> None: ...

    def source(self, folder: str = "sets") -> Source: ...


class OnDisk:
    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, content: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def source(self, folder: str = "sets") -> Source:
        return Folder(self.root / folder)


class OnMoto:
    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url
        session = boto3.Session("testing", "testing", region_name="us-east-1")
        self.s3: Any = session.client("s3", endpoint_url=endpoint_url)
        self.s3.create_bucket(Bucket=BUCKET)

    def put(self, name: str, content: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=name, Body=content)

    def remove(self, name: str) -> None:
        self.s3.delete_object(Bucket=BUCKET, Key=name)

    def connection(self) -> Connection:
        session = aioboto3.Session("testing", "testing", region_name="us-east-1")
        return Connection(session, self.endpoint_url)

    def source(self, folder: str = "sets") -> S3Folder:
        return S3Folder(self.connection(), f"s3://{BUCKET}/{folder}")


@pytest.fixture(scope="module")
def emulator_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto(emulator_url: str) -> Iterator[OnMoto]:
    place = OnMoto(emulator_url)
    yield place
    listed = place.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    for one in listed:
        place.remove(one["Key"])
    place.s3.delete_bucket(Bucket=BUCKET)
    place.s3.close()


@pytest.fixture(params=["disk", "moto"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return OnDisk(tmp_path) if request.param == "disk" else request.getfixturevalue("moto")


def a_set(version: int = 1, **fields: Any) -> bytes:
    tree = {"name": "desk", "version": version, "questions": QUESTIONS, **fields}
    return json.dumps(tree).encode()


async def test_the_files_of_a_folder_are_read(place: Place) -> None:
    """By name, in order; not those of other kinds, nor those in folders below or beside it."""
    files = {"sets/b.yaml": b"b", "sets/a ü.json": b"{}", "sets/c.YML": b""}
    others = ("sets/notes.txt", "sets/.hidden.yaml", "sets/old/a.yaml", "sets-2/a.yaml", "a.yaml")
    for name, content in (files | dict.fromkeys(others, b"no")).items():
        place.put(name, content)

    expected = [("a ü.json", b"{}"), ("b.yaml", b"b"), ("c.YML", b"")]
    assert expected == list(await place.source().read())
    assert expected == list(await place.source("sets/").read())


async def test_a_folder_that_is_not_there_is_wrong_usage(place: Place) -> None:
    """At the start, not at the first ticket; the place is named."""
    with pytest.raises(UsageError, match="none"):
        await place.source("none").read()


async def test_sets_stay_while_a_place_is_broken(place: Place) -> None:
    """New versions come on reload; once the place is gone, or a file is wrong, all stay."""
    place.put("sets/1.json", a_set())
    shelf = BookShelf(place.source())
    await shelf.load()
    place.put("sets/2.json", a_set(2))
    await shelf.reload()
    assert ["desk@1", "desk@2"] == [one.key for one in shelf.sets]

    place.put("sets/1.json", a_set(owner="someone else"))
    await shelf.reload()
    place.remove("sets/1.json")
    place.put("sets/2.json", b"[")
    await shelf.reload()
    assert ["desk@1", "desk@2"] == [one.key for one in shelf.sets]


async def test_sets_stay_while_s3_fails(moto: OnMoto) -> None:
    """What the worker has is asked on; the log says what failed, loudly."""
    moto.put("sets/1.json", a_set())
    source = moto.source()
    shelf = BookShelf(source)
    await shelf.load()
    source._connection = Connection(source._connection.session, "http://127.0.0.1:9")
    with structlog.testing.capture_logs() as logs:
        await shelf.reload()

    assert ["desk@1"] == [one.key for one in shelf.sets]
    [kept] = [line for line in logs if line["event"] == "question_sets_kept"]
    assert f"s3://{BUCKET}/sets: cannot list" in kept["error"]
    assert "error" == kept["log_level"]


async def test_one_object_is_a_file(moto: OnMoto) -> None:
    """As it lies there; one that is not there, or too large, is wrong usage."""
    moto.put("policies/p.yaml", b"name: p")
    moto.put("policies/large.yaml", b"x" * (MAX_FILE_BYTES + 1))

    def file(key: str) -> S3File:
        return S3File(moto.connection(), f"s3://{BUCKET}/{key}")

    assert b"name: p" == await file("policies/p.yaml").read()
    with pytest.raises(UsageError, match=f"s3://{BUCKET}/policies/none.yaml: .*no such object"):
        await file("policies/none.yaml").read()
    with pytest.raises(UsageError, match=f"large.yaml: .* {MAX_FILE_BYTES}"):
        await file("policies/large.yaml").read()
    with pytest.raises(UsageError):
        await S3File(moto.connection(), "s3://no-such-bucket/p.yaml").read()


async def test_too_many_files_are_refused(moto: OnMoto) -> None:
    """A prefix that was mistaken for a folder of sets is not read for an hour."""
    for number in range(3):
        moto.put(f"sets/{number}.yaml", b"")

    with pytest.raises(UsageError, match="3 files, at most 2 are read"):
        await S3Folder(moto.connection(), f"s3://{BUCKET}/sets", max_files=2).read()


async def test_a_listing_of_several_pages_is_read_whole(moto: OnMoto) -> None:
    """S3 lists a thousand at most at once."""
    for number in range(3):
        moto.put(f"sets/{number}.yaml", str(number).encode())
    async with open_documents(moto.connection(), connections=1) as documents:
        documents._client.meta.events.register(
            "before-parameter-build.s3.ListObjectsV2",
            lambda params, **_: params.update(MaxKeys=1),
        )
        names = await documents.names(BUCKET, "sets/")

    assert ["0.yaml", "1.yaml", "2.yaml"] == names


async def failing(settings: Settings) -> WorkerError:
    with pytest.raises(WorkerError) as caught:
        await open_shelf(settings)
    with pytest.raises(type(caught.value)):
        await open_policy(settings)
    return caught.value


@pytest.mark.usefixtures("_aws_environment")
async def test_what_s3_refuses_ends_the_start(
    moto: OnMoto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not reached, no credentials, no region: AWS cannot be used, exit code 4, at once."""
    places = {"question_sets": f"s3://{BUCKET}/sets", "policy": f"s3://{BUCKET}/p.yaml"}
    settings = load_settings(places)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    unreached = await failing(settings)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint_url)
    missing = await failing(settings)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    nowhere = await failing(settings)

    assert isinstance(unreached, AwsUnusable)
    assert isinstance(missing, UsageError)
    assert isinstance(nowhere, AwsUnusable)
    assert "s3://rules/sets: " in str(unreached)
    assert "s3://rules/sets: nothing is there" == str(missing)
    assert "no AWS region" in str(nowhere)


@pytest.mark.usefixtures("_aws_environment")
async def test_sets_and_policy_come_from_s3(moto: OnMoto, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they would from here; the policy's URI is its file's name."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint_url)
    bound: Mapping[str, Any] = {
        "model_sha256": "0" * 64,
        "prompt": {"name": "direct", "version": "1"},
        "runtime": {"llama_cpp": "b1", "backend": "cpu", "cpu_variant": ""},
    }
    policy = {"name": "p", "bound_to": bound, "profiles": {"only": {}}}
    moto.put("team/sets/1.json", a_set())
    moto.put("team/p.json", json.dumps(policy).encode())
    shelf = await open_shelf(load_settings({"question_sets": f"s3://{BUCKET}/team/sets"}))
    profile = await open_policy(load_settings({"policy": f"s3://{BUCKET}/team/p.json"}))

    assert ["desk@1"] == [one.key for one in shelf.sets]
    assert ("p", "only") == (profile.policy.name, profile.name)


async def test_without_s3_aws_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile that does not exist disturbs nobody who reads a folder."""
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    place = OnDisk(tmp_path)
    place.put("sets/1.json", a_set())

    assert await open_shelf(load_settings({"question_sets": str(tmp_path / "sets")})) is not None
    with pytest.raises(AwsUnusable):
        await open_shelf(load_settings({"question_sets": "s3://rules/sets"}))
