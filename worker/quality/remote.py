"""Ask a System One server over HTTP."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from worker.decision.question import Text
from worker.decision.question_set import QuestionSet
from worker.decision.strict_json import parse_json
from worker.errors import Rejected, UsageError
from worker.quality.asking import Answered, NoAnswer, Refused, read_given
from worker.quality.run_file import Given, Source

ROUTE = "/v1/systemone"
_ROUTES = (ROUTE, "/invocations")
_GREETING: Text = "Hello."
_ATTEMPTS = 6
_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
_OK = 200
_COME_BACK = frozenset({0, 408, 425, 429, 500, 502, 503, 504})
_IN_VAIN = frozenset({401, 403, 404, 405, 407, 421, 426})
_MOST_BYTES = 1 << 26


class Remote:
    """A target that is a System One server.

    Args:
        session: to ask in.
        url: of the route.
        question_set: that will be asked; the server is tried with it.
        model: the model to ask for.
        by_name: whether to name the set, which the server must then have, or to send its questions.
        clock: seconds, to time answers with.
        pause: waits for seconds before a request is sent again.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: URL,
        question_set: QuestionSet,
        *,
        model: str,
        by_name: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._url = url
        self._question_set = question_set
        self._model = model
        self._by_name = by_name
        self._clock = clock
        self._pause = pause
        self._source: Source | None = None

    async def source(self) -> Source:
        """Return who answers, after a first request that also warms the server up."""
        if self._source is None:
            try:
                tree, _ = await self._post(_GREETING, self._question_set)
                _read_answers(tree, self._question_set)
            except (Refused, NoAnswer) as error:
                raise UsageError(f"{self._shown()} does not answer this set: {error}") from None
            self._source = self._source_of(tree)
        return self._source

    async def ask(self, case_id: str, state: Text, question_set: QuestionSet) -> Answered:
        """Ask all questions about a state; see :class:`worker.quality.asking.Target`."""
        del case_id  # other servers refuse fields that they do not know
        tree, seconds = await self._post(state, question_set)
        try:
            answers = _read_answers(tree, question_set)
        except NoAnswer as error:
            raise Refused("no_answer", str(error)) from None
        if question_set is self._question_set and self._source_of(tree) != self._source:
            raise UsageError(f"{self._shown()} answers as another model than at first")
        ours = _object(tree, "x_worker")
        return Answered(
            answers,
            seconds,
            _object(ours, "timings").get("evaluation_seconds"),
            _object(tree, "usage").get("input_tokens"),
            _object(ours, "usage").get("evaluated_tokens"),
        )

    def _source_of(self, tree: Mapping[str, Any]) -> Source:
        digest = _object(tree, "x_worker").get("provenance_sha256")
        return Source(
            target=self._shown(),
            model=str(tree.get("model", "")),
            provenance_sha256=digest if isinstance(digest, str) else None,
        )

    def _shown(self) -> str:
        return str(self._url.with_user(None).with_query(None).with_fragment(None))

    async def _post(self, state: Text, question_set: QuestionSet) -> tuple[dict[str, Any], float]:
        """Send a request until it is answered; return the answer and the last try's seconds."""
        body: dict[str, Any] = {"model": self._model, "state": state}
        if self._by_name:
            body["question_set"] = question_set.key
        else:
            body["questions"] = {
                key: question.model_dump(mode="json", exclude_none=False, exclude_unset=True)
                for key, question in question_set.questions.items()
            }
        status = 0
        for attempt in range(_ATTEMPTS):
            began = self._clock()
            status, retry_after, content = await self._try(body)
            seconds = self._clock() - began
            if status == _OK:
                return _parse(content), seconds
            if status in _IN_VAIN:
                raise UsageError(f"{self._shown()} answers with status {status}")
            if status not in _COME_BACK:
                raise Refused(f"status_{status}")
            if attempt < _ATTEMPTS - 1:
                await self._pause(_delay(attempt, retry_after))
        what = f"answers with status {status} only" if status else "cannot be reached"
        raise UsageError(f"{self._shown()} {what}, {_ATTEMPTS} times")

    async def _try(self, body: Mapping[str, Any]) -> tuple[int, str, bytes]:
        """Send a request once; return status, Retry-After and content; status 0: no answer."""
        try:
            async with self._session.post(self._url, json=body) as response:
                content = await response.read()
                return response.status, response.headers.get("Retry-After", ""), content
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError):
            return 0, "", b""


@asynccontextmanager
async def open_remote(
    url: str,
    question_set: QuestionSet,
    *,
    model: str,
    key: str | None = None,
    by_name: bool = False,
    seconds: float = 120.0,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Remote]:
    """Open a target.

    Args:
        url: of a server, or of its route.
        question_set: that will be asked.
        model: the model to ask for.
        key: a bearer key.
        by_name: see :class:`Remote`.
        seconds: for one answer.
        pause: see :class:`Remote`.

    Raises:
        UsageError: the URL is none.
    """
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        yield Remote(session, route(url), question_set, model=model, by_name=by_name, pause=pause)


def route(url: str) -> URL:
    """Return the URL of the route that is asked at.

    Raises:
        UsageError: it is no HTTP URL.
    """
    try:
        base = URL(url)
    except ValueError:
        base = URL()
    if base.scheme not in ("http", "https") or not base.host:
        raise UsageError("--url must be an http:// or https:// URL")
    path = base.path.rstrip("/")
    return base if path.endswith(_ROUTES) else base.with_path(f"{path}{ROUTE}")


def _read_answers(tree: Mapping[str, Any], question_set: QuestionSet) -> dict[str, Given]:
    answers, ours = _object(tree, "answers"), _object(tree, "x_worker")
    given = {}
    for key, question in question_set.questions.items():
        verdict = _object(_object(ours, "verdicts"), key)
        beside = {
            "label_mass": _object(ours, "label_mass").get(key),
            "top_is_label": _object(ours, "top_is_label").get(key),
            "disposition": verdict.get("disposition"),
            "temperature": verdict.get("temperature"),
        }
        try:
            given[key] = read_given(question, answers.get(key), beside)
        except NoAnswer as error:
            raise NoAnswer(f"the answer to {key} {error}") from None
    return given


def _parse(content: bytes) -> dict[str, Any]:
    try:
        tree = parse_json(content) if len(content) <= _MOST_BYTES else None
    except Rejected:
        tree = None
    if not isinstance(tree, dict):
        raise Refused("no_answer", "the answer is no JSON object")
    return tree


def _object(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def _delay(attempt: int, retry_after: str) -> float:
    """Return the seconds to wait: what the server says, and a random part of a doubled delay."""
    told = float(retry_after) if retry_after.isdecimal() else 0.0
    longest = min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2**attempt)
    return min(told, _LONGEST_DELAY_SECONDS) + random.uniform(0, longest)  # noqa: S311 - jitter
