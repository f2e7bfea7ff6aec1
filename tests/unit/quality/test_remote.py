"""Servers: what they are sent, what their answers must hold, and when they are asked again."""

from typing import Any

import pytest
from aiohttp import web

from tests.unit.quality.bench import SET, open_server
from worker.decision.question_set import QuestionSet
from worker.errors import UsageError
from worker.quality.asking import NoAnswer, Refused, read_given
from worker.quality.remote import open_remote, route

ANSWERS: dict[str, Any] = {
    "desk": {"type": "choice", "choice": "tech", "probabilities": {"tech": 0.8, "money": 0.2}},
    "heat": {"type": "score", "score": 1, "probabilities": {"0": 0.1, "1": 0.6, "2": 0.3}},
    "refund": {"type": "noul", "noul": 0.25},
}


class Server:
    """Answers with what it is told, in turn, then with good answers."""

    def __init__(self, *replies: tuple[int, Any]) -> None:
        self.replies = list(replies)
        self.bodies: list[Any] = []
        self.heads: list[Any] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.heads.append((request.path, request.headers.get("Authorization")))
        status, tree = self.replies.pop(0) if self.replies else (200, {})
        body = {"model": "far", "answers": ANSWERS, "usage": {"input_tokens": 9}} | tree
        headers = {"Retry-After": "3"} if status == 503 else {}
        return web.json_response(body, status=status, headers=headers)


async def test_a_server_is_sent_questions_or_the_sets_name() -> None:
    """With the key and the model; what it answers comes in the set's order of options."""
    server = Server()
    async with open_server(server.answer) as url:
        async with open_remote(f"{url}/base/?x=1", SET, model="m", key="secret") as remote:
            source = await remote.source()
            answered = await remote.ask("c", {"a": 1}, SET)
        async with open_remote(url, SET, model="m", by_name=True) as remote:
            await remote.source()

    assert ("far", f"{url}/base/v1/systemone") == (source.model, source.target)
    assert ("/base/v1/systemone", "Bearer secret") == server.heads[0]
    assert {"a": 1} == server.bodies[1]["state"]
    assert ["money", "tech"] == list(server.bodies[1]["questions"]["desk"]["criteria"])
    assert QuestionSet.model_validate(
        {"name": "x", "version": 1, "questions": server.bodies[1]["questions"]}
    )
    assert ("desk@3", None) == (server.bodies[2]["question_set"], server.heads[2][1])
    assert {"desk": (0.2, 0.8), "heat": (0.1, 0.6, 0.3), "refund": (0.25, 0.75)} == {
        key: given.probabilities for key, given in answered.answers.items()
    }
    assert (9, None) == (answered.input_tokens, answered.evaluated_tokens)


async def test_what_our_sidecar_says_beside_is_kept() -> None:
    """Label mass, verdicts, tokens, and the digest that tells another model from the first."""
    beside = {
        "provenance_sha256": "12",
        "label_mass": {"desk": 0.5},
        "verdicts": {"desk": {"disposition": "accept"}},
        "usage": {"evaluated_tokens": 4},
        "timings": {"evaluation_seconds": 0.5},
    }
    other = {"x_worker": beside | {"provenance_sha256": "34"}}
    server = Server((200, {"x_worker": beside}), (200, {"x_worker": beside}), (200, other))
    async with (
        open_server(server.answer) as url,
        open_remote(url, SET, model="m") as remote,
    ):
        assert "12" == (await remote.source()).provenance_sha256
        answered = await remote.ask("c", "x", SET)
        with pytest.raises(UsageError, match="another model"):
            await remote.ask("c", "x", SET)

    desk = answered.answers["desk"]
    assert (0.5, "accept", None) == (desk.label_mass, desk.disposition, desk.top_is_label)
    assert (4, 0.5) == (answered.evaluated_tokens, answered.evaluation_seconds)


async def test_a_case_that_is_refused_is_not_the_end() -> None:
    """Of the others; a full server is asked again, a wrong key or path ends the run."""
    server = Server((200, {}), (413, {}), (503, {}), (200, {}), (200, {"answers": {}}), (401, {}))
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async with (
        open_server(server.answer) as url,
        open_remote(url, SET, model="m", pause=pause) as remote,
    ):
        await remote.source()
        with pytest.raises(Refused, match="status_413"):
            await remote.ask("c", "x", SET)
        assert "desk" in (await remote.ask("c", "x", SET)).answers
        with pytest.raises(Refused, match="no_answer: the answer to desk is no choice"):
            await remote.ask("c", "x", SET)
        with pytest.raises(UsageError, match="status 401"):
            await remote.ask("c", "x", SET)
    assert 1 == len(pauses)
    assert 3.0 <= pauses[0] <= 3.5  # what the server says, and a random part of half a second


async def test_a_server_that_stays_away_ends_the_run() -> None:
    """After some attempts, each after a longer pause."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    server = Server(*[(503, {})] * 6)
    async with (
        open_server(server.answer) as url,
        open_remote(url, SET, model="m", pause=pause) as remote,
    ):
        with pytest.raises(UsageError, match="answers with status 503 only, 6 times"):
            await remote.source()
    async with open_remote(url, SET, model="m", pause=pause) as remote:
        with pytest.raises(UsageError, match="cannot be reached, 6 times"):
            await remote.source()
    assert 10 == len(pauses)


async def test_a_server_that_does_not_take_the_set_is_named() -> None:
    """Before any case is asked."""
    server = Server((422, {}))
    async with (
        open_server(server.answer) as url,
        open_remote(url, SET, model="m") as remote,
    ):
        with pytest.raises(UsageError, match="does not answer this set: status_422"):
            await remote.source()


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://h:1", "http://h:1/v1/systemone"),
        ("https://h/v1/systemone", "https://h/v1/systemone"),
        ("http://h/invocations", "http://h/invocations"),
    ],
)
def test_a_url_names_a_server_or_its_route(url: str, asked: str) -> None:
    """Whichever the user has at hand."""
    assert asked == str(route(url))


def test_what_is_no_url_is_refused() -> None:
    """At once."""
    for url in ("localhost:8080", "ftp://h", "http://"):
        with pytest.raises(UsageError, match="--url"):
            route(url)


@pytest.mark.parametrize(
    ("key", "answer", "reason"),
    [
        ("desk", ANSWERS["refund"], "is no choice"),
        ("desk", {"type": "choice", "probabilities": {"tech": 1.0}}, "one probability for each"),
        ("heat", {"type": "score", "probabilities": {"0": 1, "1": 1, "2": 0}}, "sum to 1"),
        ("refund", {"type": "noul", "noul": 1.5}, "sum to 1"),
        ("refund", {"type": "noul", "noul": None}, "one probability for each"),
    ],
)
def test_what_is_no_answer_is_not_measured(key: str, answer: Any, reason: str) -> None:
    """A distribution over other options, or none at all."""
    with pytest.raises(NoAnswer, match=reason):
        read_given(SET.questions[key], answer, {})


def test_a_sign_that_is_none_is_no_answer() -> None:
    """Such as a share over 1: the run would not be read again."""
    answer = {"type": "choice", "probabilities": {"money": 0.5, "tech": 0.5}}
    with pytest.raises(NoAnswer, match="has a wrong label_mass: "):
        read_given(SET.questions["desk"], answer, {"label_mass": 5})


def test_rounded_probabilities_are_a_distribution_again() -> None:
    """And those that were not rounded keep their bits."""
    rounded = {"type": "choice", "probabilities": {"money": 0.33, "tech": 0.66}}
    given = read_given(SET.questions["desk"], rounded, {})
    assert pytest.approx((1 / 3, 2 / 3)) == given.probabilities
    exact = {"type": "choice", "probabilities": {"money": 0.1, "tech": 0.9}}
    assert (0.1, 0.9) == read_given(SET.questions["desk"], exact, {}).probabilities
