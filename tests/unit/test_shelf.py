"""The shelf of question sets, the policy's opening, and what SIGHUP does."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.factories import QUESTIONS, make_provenance, make_ticket, make_wording
from tests.fakes import FakeEngine
from worker.decision.attributes import outcome_attributes
from worker.decision.policy import NO_POLICY, POLICY_MISMATCH, Fixed
from worker.errors import UsageError
from worker.evaluator import Evaluator
from worker.library import open_policy, open_shelf
from worker.lifecycle import Lifecycle
from worker.ports import Lane
from worker.rulebook import bind_policy, binding_of, policy_provenance
from worker.settings import Settings
from worker.shelf import BookShelf, Folder


def write_set(folder: Path, version: int = 1, **fields: Any) -> None:
    tree = {"name": "desk", "version": version, "questions": QUESTIONS, **fields}
    (folder / f"desk-{version}.json").write_text(json.dumps(tree))


def write_policy(path: Path, model_sha256: str) -> Path:
    bound = binding_of(make_provenance()).model_dump(mode="json")
    rules = {"only": {"types": {"noul": {"accept": 0.0}}}}
    tree = {"name": "p", "bound_to": {**bound, "model_sha256": model_sha256}, "profiles": rules}
    path.write_text(json.dumps(tree))
    return path


async def test_a_folder_is_read_and_read_again(tmp_path: Path) -> None:
    """New versions come, files of other kinds are left alone, and the old set stays as it was."""
    write_set(tmp_path)
    (tmp_path / "notes.txt").write_text("[")
    shelf = await open_shelf(Settings(question_sets=tmp_path))
    assert shelf is not None
    write_set(tmp_path, 2)
    await shelf.reload()

    assert ["desk@1", "desk@2"] == [one.key for one in shelf.sets]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
async def test_what_is_called_a_set_and_is_no_file_is_named(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """A folder, a pipe or a link to nothing: somebody meant a set to be there."""
    write_set(tmp_path)
    make(tmp_path / "more.yaml")

    with pytest.raises(UsageError, match=r"question sets: .*/more.yaml: not a file"):
        await open_shelf(Settings(question_sets=tmp_path))


@pytest.mark.parametrize("fields", [{"owner": "someone else"}, {"questions": {}}])
async def test_a_broken_file_changes_nothing(tmp_path: Path, fields: dict[str, Any]) -> None:
    """What was good goes on being asked while a file is wrong, or a version has changed."""
    write_set(tmp_path)
    shelf = BookShelf(Folder(tmp_path))
    await shelf.load()
    before = shelf.find("desk")
    write_set(tmp_path, **fields)
    write_set(tmp_path, 2)
    await shelf.reload()

    assert before is shelf.find("desk")


async def test_a_missing_folder_is_wrong_usage(tmp_path: Path) -> None:
    """At the start, not at the first ticket."""
    with pytest.raises(UsageError, match="No such file"):
        await open_shelf(Settings(question_sets=tmp_path / "none"))


async def test_each_hangup_is_answered_by_all() -> None:
    """Keys and question sets are both read again, as often as asked; none ends the process."""
    called = asyncio.Queue[str]()
    lifecycle = Lifecycle()

    async def call(name: str) -> None:
        called.put_nowait(name)

    with lifecycle.hangups():
        lifecycle.on_hangup(partial(call, "keys"))
        lifecycle.on_hangup(partial(call, "sets"))
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            assert ["keys", "sets"] == [await called.get(), await called.get()]

    assert not asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


async def test_a_hangup_that_nobody_waits_for_is_ignored() -> None:
    """It would end the process, and what it has in hand."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    lifecycle = Lifecycle()

    def note(_logger: object, _name: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        assert "hangup_ignored" == event["event"]
        loop.call_soon(told.set)
        raise structlog.DropEvent

    with structlog.testing.capture_logs(processors=[note]), lifecycle.hangups():
        os.kill(os.getpid(), signal.SIGHUP)
        await told.wait()


async def test_a_ticket_asks_a_set_by_name(tmp_path: Path) -> None:
    """Its questions, orders and attributes count, and the outcome names it with its hash."""
    write_set(tmp_path, defaults={"orders": 2, "attributes": ["refund"]})
    shelf = await open_shelf(Settings(question_sets=tmp_path))
    assert shelf is not None
    engine = FakeEngine()
    evaluator = Evaluator(engine, make_wording(), make_provenance(), shelf=shelf)
    ticket = make_ticket(questions=None, question_set="desk")
    outcome = await evaluator.evaluate(ticket, Lane.BATCH)
    told = outcome.as_dict()["provenance"]

    assert list(QUESTIONS) == list(outcome.answers)
    assert {"name": "desk", "version": 1, "sha256": shelf.find("desk").sha256()} == (
        told["question_set"]
    )
    assert 2 == told["prompt"]["orders"]
    assert len(QUESTIONS) < len(engine.evaluations[0].branches)
    attributes = outcome_attributes(outcome)
    assert "desk@1" == attributes["question_set"].value
    assert ["answer.refund"] == [name for name in attributes if name.startswith("answer.")]
    assert "attribute_ids" not in outcome.as_dict()


async def test_a_policy_decides_and_is_named(tmp_path: Path) -> None:
    """Verdicts are the profile's; the ticket's disposition is the most cautious of them."""
    path = write_policy(tmp_path / "p.json", make_provenance().model.sha256)
    settings = Settings(policy=path)
    profile = await open_policy(settings)
    provenance = make_provenance(policy=policy_provenance(profile))
    policy = bind_policy(profile, provenance, settings)
    evaluator = Evaluator(FakeEngine(), make_wording(), provenance, policy=policy)
    outcome = await evaluator.evaluate(make_ticket(), Lane.BATCH)
    plain = await Evaluator(FakeEngine(), make_wording(), make_provenance()).evaluate(
        make_ticket(), Lane.BATCH
    )

    assert {"desk": "review", "heat": "review", "refund": "accept"} == {
        key: answer.verdict.disposition for key, answer in outcome.answers.items()
    }
    assert "review" == outcome.disposition
    assert ("p", "only", profile.sha256) == (
        outcome.provenance.policy.name,
        outcome.provenance.policy.profile,
        outcome.provenance.policy.sha256,
    )
    assert outcome.outcome_id != plain.outcome_id


async def test_a_policy_for_another_model_refuses_the_start(tmp_path: Path) -> None:
    """Both sides are named; or, by setting, everything is for review with that reason."""
    path = write_policy(tmp_path / "p.json", "12" * 32)
    profile = await open_policy(Settings(policy=path))

    with pytest.raises(UsageError, match=f"made for {'12' * 32}, here {'ab' * 32}"):
        bind_policy(profile, make_provenance(), Settings(policy=path))
    lenient = Settings(policy=path, policy_mismatch="review")
    assert Fixed(POLICY_MISMATCH) == bind_policy(profile, make_provenance(), lenient)
    assert ("review", ("policy_mismatch",)) == (
        POLICY_MISMATCH.disposition,
        POLICY_MISMATCH.reasons,
    )


async def test_without_a_policy_everything_is_for_review() -> None:
    """And a profile of no policy is wrong usage."""
    assert Fixed(NO_POLICY) == bind_policy(None, make_provenance(), Settings())
    with pytest.raises(UsageError, match="needs --policy"):
        await open_policy(Settings(policy_profile="x"))


async def test_a_policys_sets_take_no_other_content(tmp_path: Path) -> None:
    """Not at the start, with both hashes named, and not when the folder is read again."""
    bound_hash = "12" * 32
    policy_path = write_policy(tmp_path / "p.json", make_provenance().model.sha256)
    tree = json.loads(policy_path.read_text())
    tree["bound_to"]["question_sets"] = {"desk@1": bound_hash}
    policy_path.write_text(json.dumps(tree))
    settings = Settings(policy=policy_path)
    profile = await open_policy(settings)
    assert profile is not None
    folder = tmp_path / "sets"
    folder.mkdir()
    write_set(folder)
    shelf = await open_shelf(Settings(question_sets=folder))
    assert shelf is not None

    here = shelf.find("desk").sha256()
    with pytest.raises(UsageError, match=f"desk@1: made for {bound_hash}, here {here}"):
        bind_policy(profile, make_provenance(), settings, shelf.sets)
    assert profile is bind_policy(profile, make_provenance(), settings)

    empty = BookShelf(Folder(folder))
    empty.pin({"desk@1": bound_hash})
    with pytest.raises(UsageError, match="a change needs a new version"):
        await empty.load()
