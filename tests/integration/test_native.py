"""Native decision models are read as llama.cpp's own server reads them, to rounding."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.factories import make_provenance
from tests.integration.pools import open_pool
from tests.models import CHATML, FLOAT_OPTIONS, Tiny, TinyModels
from tests.native import DECIDERS, STRESS, NativeServer, Requests, decider
from tests.tiny_gguf import SPECIAL_TOKENS
from worker.brain import open_wording
from worker.decision.outcome import Outcome
from worker.decision.ticket import validate_ticket
from worker.errors import CannotRun, Rejected, UsageError
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.settings import Settings

TOLERANCE: Final = 2e-4
"""In probability, on float models."""

TEMPLATES: Final[tuple[tuple[str | None, int], ...]] = ((None, 52), (STRESS, 11))
"""A template, None being the type's own, and the most options it is tried with."""

BOTH: Final = [
    pytest.param(kind, template, most_options, id=f"{kind}-{'stress' if template else 'own'}")
    for kind in DECIDERS
    for template, most_options in TEMPLATES
]


class Pair:
    """One decision model, read by the worker and by llama.cpp's server."""

    def __init__(self, evaluator: Evaluator, server: NativeServer) -> None:
        self._evaluator = evaluator
        self._server = server

    async def ours(self, request: dict[str, Any]) -> Outcome:
        return await self._evaluator.evaluate(validate_ticket(request), Lane.BATCH)

    def native(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._server.answer(request)


@contextmanager
def open_pair(models: TinyModels, tiny: Tiny) -> Iterator[Pair]:
    model = models.load(tiny)
    with NativeServer(models.path(tiny)) as server, open_pool(model, options=FLOAT_OPTIONS) as pool:
        yield Pair(Evaluator(pool, open_wording(model, Settings()), make_provenance()), server)


async def compare(pair: Pair, request: dict[str, Any]) -> None:
    native = pair.native(request)
    assert "error" not in native, (native, request)
    outcome = (await pair.ours(request)).as_dict()
    assert native["usage"]["input_tokens"] == outcome["usage"]["input_tokens"], request
    assert list(native["answers"]) == list(outcome["answers"])
    for key, answer in native["answers"].items():
        assert_close(answer, outcome["answers"][key], request)


def assert_close(native: dict[str, Any], ours: dict[str, Any], request: dict[str, Any]) -> None:
    """Every field llama.cpp's server has; a near tie may choose otherwise."""
    assert native["type"] == ours["type"]
    # The server's JSON library makes floats of integers beyond 64 bits; ours stay what they are.
    assert list(native.get("legend", ())) == list(ours.get("legend", ()))
    for name in ("noul", "probabilities"):
        assert pytest.approx(native.get(name), abs=TOLERANCE) == ours.get(name), request
    # These are sums over up to ten levels, or scaled up by n/(n-1).
    for name in ("score", "confidence"):
        assert pytest.approx(native.get(name), abs=10 * TOLERANCE) == ours.get(name), request
    if "choice" in native:
        chosen = native["probabilities"][ours["choice"]]
        assert chosen >= max(native["probabilities"].values()) - TOLERANCE


@pytest.mark.parametrize(("kind", "template", "most_options"), BOTH)
async def test_answers_equal_the_native_servers(
    tiny_models: TinyModels, kind: str, template: str | None, most_options: int
) -> None:
    """Probabilities and token counts, on requests of every form."""
    requests = Requests(f"{kind} {most_options}", most_options)
    with open_pair(tiny_models, decider(kind, template)) as pair:
        for _ in range(6):
            await compare(pair, requests.one())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "template", "most_options"), BOTH)
async def test_many_answers_equal_the_native_servers(
    tiny_models: TinyModels, kind: str, template: str | None, most_options: int
) -> None:
    """The same on 400 requests in all."""
    requests = Requests(f"many {kind} {most_options}", most_options)
    with open_pair(tiny_models, decider(kind, template)) as pair:
        for _ in range(40):
            await compare(pair, requests.one())


# --- refusals -------------------------------------------------------------------------------------

NOUL: Final = {"type": "noul", "instructions": "Is it?"}
CHOICE: Final = {"type": "choice", "instructions": "Which?"}
SCORE: Final = {"type": "score", "instructions": "How much?"}


def asks(question: Any) -> dict[str, Any]:
    return {"state": "hello", "questions": {"q": question}}


def options(count: int) -> dict[str, None]:
    return {f"o{number}": None for number in range(count)}


@pytest.mark.parametrize("kind", DECIDERS)
async def test_refusals_agree(tiny_models: TinyModels, kind: str) -> None:
    """What the native server refuses we refuse, and the other way round."""
    requests = [
        {"questions": {"q": NOUL}},
        {"state": "hello"},
        {"state": "hello", "questions": {}},
        {"state": "hello", "questions": []},
        asks("Is it?"),
        asks({"type": "noul"}),
        asks({"type": "noul", "instructions": None}),
        asks({"instructions": "Is it?"}),
        asks(NOUL | {"type": "box"}),
        asks(NOUL | {"criteria": ["yes", "no"]}),
        asks(CHOICE),
        asks(CHOICE | {"criteria": {}}),
        asks(CHOICE | {"criteria": ["a", "b"]}),
        asks(CHOICE | {"criteria": options(256)}),
        asks(SCORE),
        asks(SCORE | {"criteria": {"low": None}}),
        asks(SCORE | {"criteria": []}),
        asks(SCORE | {"criteria": list("abcdefghijk")}),
    ]
    accepted = [
        asks(NOUL),
        asks(NOUL | {"criteria": {"true": "so"}, "instructions": ["Is", {"it": "?"}]}),
        asks(CHOICE | {"criteria": options(1)}),
        asks(CHOICE | {"criteria": options(2), "instructions": ""}),
        asks(SCORE | {"criteria": ["low", "high"], "instructions": {}}),
        asks(CHOICE | {"criteria": options(52 if kind == "openjev" else 255)}),
        asks(SCORE | {"criteria": list("abcdefghij")}),
        asks(SCORE | {"criteria": ["low", {"high": 1}]}),
        {"state": "", "questions": {"q": NOUL}, "model": "jev-latest", "more": 1},
    ]
    if kind == "openjev":
        requests.append(asks(CHOICE | {"criteria": options(53)}))
    with open_pair(tiny_models, decider(kind)) as pair:
        for request in requests:
            assert "error" in pair.native(request), request
            with pytest.raises(Rejected):
                await pair.ours(request)
        for request in accepted:
            await compare(pair, request)


async def test_refusals_that_differ_on_purpose(tiny_models: TinyModels) -> None:
    """System One's rules come first; and what only looks like a question is not guessed at."""
    with open_pair(tiny_models, decider("openjev")) as pair:
        # System One takes one level. No model is needed to know the answer.
        one_level = asks(SCORE | {"criteria": ["only"]})
        assert "error" in pair.native(one_level)
        answer = (await pair.ours(one_level)).as_dict()["answers"]["q"]
        assert (0.0, 1.0, {"0": 1.0}) == (
            answer["score"],
            answer["confidence"],
            answer["probabilities"],
        )
        for request in (
            asks(SCORE | {"criteria": ["low", None]}),  # System One's clients take no null legend
            asks(CHOICE | {"criteria": {"": "nothing", "a": None}}),  # an answer without a name
            asks(CHOICE | {"criteria": options(2), "critera": {}}),  # a slip of the pen
            asks(NOUL | {"criteria": {"yes": "so"}}),  # would be ignored
            asks(NOUL | {"instructions": 7}),
            asks(NOUL | {"instructions": ""}),  # asks nothing
            {"state": 7, "questions": {"q": NOUL}},
            {"state": "hello", "questions": {"": NOUL}},
        ):
            assert "error" not in pair.native(request), request
            with pytest.raises(Rejected):
                await pair.ours(request)


async def test_a_state_is_never_nothing(tiny_models: TinyModels) -> None:
    """The native server takes null for lfm2-d1, to ask about images alone; here there are none."""
    request = {"state": None, "questions": {"q": NOUL}}
    with open_pair(tiny_models, decider("lfm2-d1")) as pair:
        assert "error" not in pair.native(request)
        with pytest.raises(Rejected):
            await pair.ours(request)


async def test_images_are_refused(tiny_models: TinyModels) -> None:
    """A chat whose messages hold images or sound is not read without them."""
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, part]}]
    with open_pair(tiny_models, decider("openjev")) as pair:
        for state in (messages, {"messages": messages}):
            request = {"state": state, "questions": {"q": NOUL}}
            assert "error" in pair.native(request)
            with pytest.raises(Rejected, match="images"):
                await pair.ours(request)
        messages[0]["content"].pop()
        await compare(pair, {"state": messages, "questions": {"q": NOUL}})


@pytest.mark.parametrize("kind", ["kev", "laya", "clef", "julia-1", "lfm2-d1-omni", "lev2"])
def test_other_types_are_refused_at_start(tiny_models: TinyModels, kind: str) -> None:
    """By name, with what to use instead."""
    with pytest.raises(CannotRun, match=f"type {kind}, .*llama-server"):
        open_wording(tiny_models.load(decider(kind)), Settings())


@pytest.mark.parametrize(
    ("template", "metadata", "reason"),
    [
        ("{% if %}", {}, "not Jinja"),
        ("{{ 1 // 0 }}", {}, "cannot be used"),
        ("{{ state }}", {"temperature.noul": 0.0}, "over zero"),
    ],
)
def test_a_broken_decision_model_is_refused_at_start(
    tiny_models: TinyModels, template: str, metadata: dict[str, float], reason: str
) -> None:
    """Never at the first ticket."""
    with pytest.raises(CannotRun, match=reason):
        open_wording(tiny_models.load(decider("openjev", template, **metadata)), Settings())


def test_a_decision_model_is_asked_in_its_own_words(
    tiny_models: TinyModels, tmp_path: Path
) -> None:
    """A prompt file for another kind of model is a mistake."""
    settings = Settings(prompt_file=tmp_path / "mine.jinja")
    with pytest.raises(UsageError, match="own words"):
        open_wording(tiny_models.load(decider("lev")), settings)


# --- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in DECIDERS if kind != "nimble"])
async def test_no_question_moves_another(tiny_models: TinyModels, kind: str) -> None:
    """Together or alone, an answer has the same bits (nimble lists all questions)."""
    model = tiny_models.load(decider(kind))
    questions = {
        "a": CHOICE | {"criteria": options(5)},
        "b": NOUL,
        "c": SCORE | {"criteria": ["low", "mid", "high"]},
        "d": NOUL | {"criteria": {"true": "money is wanted back"}},
    }
    with open_pool(model, options=FLOAT_OPTIONS) as pool:
        evaluator = Evaluator(pool, open_wording(model, Settings()), make_provenance())

        async def ask(*keys: str) -> tuple[dict[str, Any], int]:
            asked = {"state": "hello " * 40, "questions": {key: questions[key] for key in keys}}
            outcome = await evaluator.evaluate(validate_ticket(asked), Lane.BATCH)
            assert outcome.usage is not None
            return outcome.as_dict()["answers"], outcome.usage.reused_tokens

        together, reused = await ask(*questions)
        for key in questions:
            assert {key: together[key]} == (await ask(key))[0]
    assert reused >= 3 * 40  # the state was evaluated once


# --- text is text ---------------------------------------------------------------------------------

ASKABLE: Final = [
    *[pytest.param(decider(kind, template), id=f"{kind}-{name}")
      for kind in DECIDERS for name, template in (("own", None), ("stress", STRESS))],
    pytest.param(Tiny(), id="direct"),
    pytest.param(Tiny(chat_template=CHATML, tokenizer="bpe"), id="direct-chat"),
]  # fmt: skip


@pytest.mark.parametrize("tiny", ASKABLE)
def test_no_text_becomes_a_control_token(tiny_models: TinyModels, tiny: Tiny) -> None:
    """Every control token of the vocabulary in state, instructions and options changes none."""
    model = tiny_models.load(tiny)
    wording = open_wording(model, Settings())
    control = {token.token for token in model.tokenizer._control_tokens.values()}
    everything = "".join(f"{spelling} x {spelling}" for spelling in SPECIAL_TOKENS)

    def counts(text: str) -> list[int]:
        tree = {
            "state": {"note": text, "list": [text]},
            "questions": {
                "a": CHOICE | {"criteria": {f"one{text}": text, "the_two": None}},
                "b": NOUL | {"instructions": f"Is it {text}?"},
                "c": SCORE | {"criteria": [text or "-", "high"]},
            },
        }
        ticket = validate_ticket(tree)
        worded = wording.word(ticket.state, ticket.questions)
        prompts = [*worded.probes, *(view.prompt for one in worded.questions for view in one.views)]
        return [sum(token in control for token in model.encode(prompt)) for prompt in prompts]

    assert len(control) == len(SPECIAL_TOKENS)
    assert counts("") == counts(everything)
    if model.decision_type is not None:
        assert all(count > 0 for count in counts(""))


async def test_the_native_server_lets_control_tokens_in(tiny_models: TinyModels) -> None:
    """Which is where we differ on purpose: there five spellings are five tokens, here text."""
    request = {"state": "<end_of_turn>" * 5, "questions": {"q": NOUL}}
    with open_pair(tiny_models, decider("openjev")) as pair:
        native = pair.native(request)["usage"]["input_tokens"]
        ours = (await pair.ours(request)).usage.input_tokens
        without = pair.native(request | {"state": ""})["usage"]["input_tokens"]
    assert without + 5 == native
    assert ours > native + 5


# --- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, *DECIDERS])
async def test_two_orders_do_not_favour_a_place(tiny_models: TinyModels, kind: str | None) -> None:
    """With two orders, reversing the options of a request changes no probability."""
    tiny = decider(kind) if kind else Tiny()
    model = tiny_models.load(tiny)
    draw = Requests(f"orders {kind}", 11)
    with open_pool(model, options=FLOAT_OPTIONS) as pool:
        twice = Evaluator(pool, open_wording(model, Settings()), make_provenance(), orders=2)
        once = replace(twice, orders=1)
        moved = 0.0
        for _ in range(6):
            criteria = draw.options()
            there = asks(CHOICE | {"criteria": criteria})
            back = asks(CHOICE | {"criteria": dict(reversed(criteria.items()))})
            assert pytest.approx(await chances(twice, there), abs=1e-9) == await chances(
                twice, back
            )
            one, other = await chances(once, there), await chances(once, back)
            moved = max(moved, *(abs(one[key] - other[key]) for key in criteria))
    assert moved > 100 * TOLERANCE  # with one order it does


async def chances(evaluator: Evaluator, request: dict[str, Any]) -> dict[str, float]:
    outcome = await evaluator.evaluate(validate_ticket(request), Lane.BATCH)
    probabilities: dict[str, float] = outcome.as_dict()["answers"]["q"]["probabilities"]
    return probabilities
