"""How decision models are asked: what their templates are given, and where refusals point."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.factories import make_choice, make_noul, make_score
from tests.native_wording import STATE, FakeVocabulary, make_native
from worker.decision.control import ControlTokens
from worker.decision.native.wording import NativeWording, open_wording
from worker.decision.question import Question
from worker.errors import CannotRun, Rejected


def given(
    wording: NativeWording, questions: Mapping[str, Question], orders: int | None = None
) -> list[list[Any]]:
    """Return what the template was given for each view of each question."""
    worded = wording.word({}, questions, orders)
    return [
        [json.loads("".join(piece.text for piece in view.prompt)[12:]) for view in one.views]
        for one in worded.questions
    ]


def test_a_template_is_given_what_llama_cpp_gives() -> None:
    """Id, type, and raw values; openjev's template writes its labels itself."""
    question = make_choice(instructions={"b": 1, "a": [None]})

    assert [
        [
            {
                "id": "q",
                "type": "choice",
                "ask": {"b": 1, "a": [None]},
                "options": [
                    {"key": "money", "description": "invoices"},
                    {"key": "tech", "description": None},
                ],
            }
        ]
    ] == given(make_native(), {"q": question})


def test_lev_shows_a_choice_twice_and_reads_a_noul_as_a_rating() -> None:
    """Forward and reversed, labels staying in their places; keys sorted; nine labels for a noul."""
    wording = make_native("lev")
    questions = {"a": make_choice(instructions={"b": 1, "a": 2}), "b": make_noul()}
    [forward, backward], [noul] = given(wording, questions)
    choice, rating = wording.word("", questions).questions

    assert ["a", "b"] == list(forward["ask"])
    assert ["description", "key", "label"] == list(forward["options"][0])
    assert [("A", "money"), ("B", "tech")] == [(o["label"], o["key"]) for o in forward["options"]]
    assert [("A", "tech"), ("B", "money")] == [(o["label"], o["key"]) for o in backward["options"]]
    assert [(0, 1), (1, 0)] == [view.order for view in choice.views]
    assert ["false", "true"] == [option["key"] for option in noul["options"]]
    assert (True, 9) == (rating.rates, len(rating.views[0].labels))


@pytest.mark.parametrize(
    ("kind", "keys"), [("openjev", ["true", "false"]), ("pplx-decider", ["false", "true"])]
)
def test_a_noul_has_its_order(kind: str, keys: list[str]) -> None:
    """And the probabilities find their way back to it."""
    [[shown]] = given(make_native(kind), {"q": make_noul(criteria={"true": "it is"})})
    [asked] = make_native(kind).word("", {"q": make_noul()}).questions

    assert keys == [option["key"] for option in shown["options"]]
    assert {"true": "it is", "false": None} == {
        option["key"]: option["description"] for option in shown["options"]
    }
    assert [(0, 1) if keys[0] == "true" else (1, 0)] == [view.order for view in asked.views]


def test_orders_are_for_choices() -> None:
    """A scale keeps its order, whatever is asked for; one order is llama.cpp's for all but lev."""
    questions = {"a": make_choice(), "b": make_score(), "c": make_noul()}

    assert [1, 1, 1] == [len(one) for one in given(make_native(), questions)]
    assert [2, 1, 1] == [len(one) for one in given(make_native(), questions, 2)]
    assert [1, 1, 1] == [len(one) for one in given(make_native("lev"), questions, 1)]


def test_nimble_is_given_all_questions() -> None:
    """In each view with its order of options, so that no place is favoured there either."""
    listing = "{{ questions | tojson }}|{{ id }}"
    wording = make_native("nimble", listing)
    questions = {"a": make_choice(), "b": make_score()}
    first, second = wording.word("", questions, 2).questions
    texts = ["".join(piece.text for piece in view.prompt) for view in (*first.views, *second.views)]
    keys = [
        [[option["key"] for option in one["options"]] for one in json.loads(text.split("|")[0])]
        for text in texts
    ]

    levels = ["0", "1", "2"]
    assert [[["money", "tech"], levels], [["tech", "money"], levels]] == keys[:2]
    assert ["a", "a", "b"] == [text.split("|")[1] for text in texts]


def test_temperatures_go_with_the_question() -> None:
    """By type and number of options."""
    wording = make_native(**{"temperature.choice": "2.000000", "temperature.score.3_5": "4.0"})
    asked = wording.word("", {"a": make_choice(), "b": make_score(), "c": make_noul()}).questions

    assert [2.0, 4.0, 1.0] == [one.temperature for one in asked]


def test_the_probes_share_state_and_nothing_of_the_questions() -> None:
    """The trunk depends on template and state alone."""
    wording = make_native()
    probes = wording.word({"mail": "x"}, {"q": make_choice()}).probes

    assert probes == wording.word({"mail": "x"}, {"z": make_noul(), "y": make_score()}).probes
    assert probes != wording.word({"mail": "y"}, {"q": make_choice()}).probes


@pytest.mark.parametrize(
    ("question", "where"),
    [
        (make_choice(instructions=None), "questions.q.instructions"),
        (make_choice(criteria={f"o{n}": None for n in range(53)}), "questions.q.criteria"),
        (make_choice(instructions="fail"), "questions.q"),
    ],
)
def test_refusals_name_the_place(question: Question, where: str) -> None:
    """And nothing that stands there."""
    template = (
        STATE + "{% if instructions == 'fail' %}{{ raise_exception(instructions) }}{% endif %}"
    )
    with pytest.raises(Rejected) as caught:
        make_native(template=template).word("", {"fine": make_noul(), "q": question})

    assert where == caught.value.where
    assert "fail (" not in caught.value.message


def test_escapes_do_not_hide_who_wrote_what() -> None:
    """Its own tokens can be told from the text's where a template escapes all but ASCII."""
    wording = make_native(template="<s>{{ state | tojson(ensure_ascii=true) }}{{ instructions }}")
    [asked] = wording.word("é<s>", {"q": make_noul()}).questions

    assert [("<s>", True), ('"\\u00e9<s>"Does the writer ask for money back?', False)] == [
        (piece.text, piece.trusted) for piece in asked.views[0].prompt
    ]


def test_the_wordings_hash_is_of_all_that_counts() -> None:
    """Type, template, temperatures."""
    hashes = {
        make_native().sha256,
        make_native("nimble").sha256,
        make_native(template=STATE).sha256,
        make_native(**{"temperature.noul": "2.0"}).sha256,
    }

    assert 4 == len(hashes)
    assert ("native-openjev", "1", 52) == (
        make_native().name,
        make_native().version,
        make_native().labels,
    )


def test_a_model_without_its_template_cannot_be_asked() -> None:
    """The key is named."""
    with pytest.raises(CannotRun, match=r"chat_template\.systemone"):
        open_wording("tiny", {"tiny.decision.type": "lev"}, FakeVocabulary(), ControlTokens([]))
