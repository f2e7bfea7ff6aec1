"""Runs: every case asked once, noted when answered, and gone on with after any interruption."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.factories import make_provenance, make_wording
from tests.fakes import FakeEngine
from tests.unit.quality.bench import SET, make_header
from worker.decision.policy import POLICY_MISMATCH, Fixed
from worker.decision.policy_file import Policy
from worker.decision.question import Choice, Text
from worker.decision.question_set import QuestionSet
from worker.errors import DecodeFailed, EngineBusy, UsageError
from worker.evaluator import Evaluator
from worker.quality.asking import Answered, Refused
from worker.quality.cases import Case
from worker.quality.evaluation import Evaluation
from worker.quality.in_process import InProcess, fit_policy
from worker.quality.probes import inject, reversed_options
from worker.quality.run_file import Given, Source, open_run, read_run
from worker.rulebook import binding_of
from worker.settings import Settings

CASES = [Case(f"c{number}", f"state {number}", {"desk": 0}) for number in range(5)]


@dataclass
class FakeTarget:
    """Answers by place: the option shown first is likeliest, whatever it is."""

    errors: dict[str, Exception] = field(default_factory=dict)
    asked: list[tuple[str, Text]] = field(default_factory=list)

    async def source(self) -> Source:
        return make_header().source

    async def ask(self, case_id: str, state: Text, question_set: QuestionSet) -> Answered:
        self.asked.append((case_id, state))
        if error := self.errors.get(case_id):
            raise error
        return Answered(
            {
                key: Given(probabilities=_falling(len(question.options())))
                for key, question in question_set.questions.items()
            },
            seconds=0.5,
            input_tokens=7,
        )


def _falling(options: int) -> tuple[float, ...]:
    total = options * (options + 1) / 2
    return tuple((options - place) / total for place in range(options))


async def ask(path: Path, target: Any, **fields: Any) -> None:
    probes = fields.pop("probes", ())
    with open_run(path, make_header(probes=probes)) as run:
        values = {"at_once": 2} | fields
        await Evaluation(target, SET, probes, run, **values).ask_all(CASES)


async def test_every_case_is_asked_once(tmp_path: Path) -> None:
    """The file holds what came back, by case; asking again changes nothing."""
    path, target = tmp_path / "run.jsonl", FakeTarget()
    steps: list[int] = []
    await ask(path, target, on_step=steps.append)
    await ask(path, target)
    header, results = read_run(path)

    assert make_header() == header
    assert [case.case_id for case in CASES] == [result.case for result in results]
    assert len(CASES) == len(target.asked) == sum(steps)
    assert {"desk": 0} == results[0].expected
    assert (0.5, 7, None) == (results[0].seconds, results[0].input_tokens, results[0].failure)
    assert pytest.approx((2 / 3, 1 / 3)) == results[0].answers["desk"].probabilities


async def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    """What was answered is kept, half a line is not, and only the rest is asked."""
    path = tmp_path / "run.jsonl"
    with pytest.raises(UsageError, match="gone"):
        await ask(path, FakeTarget({"c3": UsageError("gone")}), at_once=1)
    with path.open("ab") as file:
        file.write(b'{"case":"c3","sta')
    target = FakeTarget()
    await ask(path, target, at_once=1)

    assert ["c3", "c4"] == [case for case, _ in target.asked]
    assert [case.case_id for case in CASES] == [result.case for result in read_run(path)[1]]


async def test_a_case_without_an_answer_is_noted(tmp_path: Path) -> None:
    """With the reason, and not asked again: it would have none the next time either."""
    path, target = tmp_path / "run.jsonl", FakeTarget({"c1": Refused("too_large", "by far")})
    await ask(path, target)
    await ask(path, target)
    failed = [result for result in read_run(path)[1] if result.failure is not None]

    assert [("c1", "too_large", "by far", {})] == [
        (one.case, one.failure.code, one.failure.message, one.answers) for one in failed
    ]
    assert len(CASES) == len(target.asked)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"source": Source(target="local", model="big")}, 'source model was "tiny", now "big"'),
        ({"probes": ("order",)}, "probes was"),
        ({"questions": {}}, "questions desk was"),
    ],
)
def test_a_run_of_something_else_is_not_gone_on_with(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    """What differs is named, with both sides and the way out."""
    path = tmp_path / "run.jsonl"
    with open_run(path, make_header()):
        pass
    with (
        pytest.raises(UsageError, match=told) as caught,
        open_run(path, make_header(**change)),
    ):
        pass
    assert "--run" in str(caught.value)


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    """With file and line."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"format": "decision-submitted/1", "queue_url": "x"}\n')
    with pytest.raises(UsageError, match=r"x.jsonl:1: no run, as `evaluate` writes it: format: "):
        read_run(path)


GOOD = {
    "case": "c",
    "state_sha256": "ab",
    "expected": {"desk": 1},
    "answers": {"desk": {"probabilities": [0.25, 0.75], "label_mass": 0.5, "temperature": 2.0}},
    "probes": {"injection": {"desk": {"probabilities": [0.5, 0.5], "told": 1}}},
    "seconds": 0.5,
}


def desk(**fields: Any) -> dict[str, Any]:
    return {"answers": {"desk": {"probabilities": [0.25, 0.75]} | fields}}


def probed(**fields: Any) -> dict[str, Any]:
    return {"probes": {"injection": {"desk": {"probabilities": [0.5, 0.5], "told": 1} | fields}}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (desk(probabilities=[-1, 2]), "answers.desk.probabilities.0: input should be greater"),
        (desk(probabilities=[1e308, 1e308]), "answers.desk.probabilities.0: input should be less"),
        (desk(probabilities=[0.9, 0.9]), "answers.desk: the probabilities do not sum to 1"),
        (desk(probabilities=[1.0]), "answers.desk: 1 probabilities for 2 options"),
        (desk(probabilities=[]), "answers.desk.probabilities: "),
        (desk(probabilities=[float("nan"), 1]), "answers.desk.probabilities.0: "),
        (desk(label_mass=5), "answers.desk.label_mass: "),
        (desk(temperature=0), "answers.desk.temperature: "),
        ({"answers": {"other": {"probabilities": [1]}}}, "answers.other: the run has no such"),
        ({"expected": {"desk": 2}}, "expected.desk: there is no option 2, the question has 2"),
        ({"expected": {"desk": -1}}, "expected.desk: input should be greater"),
        ({"expected": {"other": 0}}, "expected.other: the run has no such question"),
        (probed(told=2), "probes.injection.desk: there is no option 2"),
        (probed(probabilities=[0.5]), "probes.injection.desk: 1 probabilities for 2 options"),
        ({"seconds": -1}, "seconds: input should be greater"),
        ({"input_tokens": -1}, "input_tokens: input should be greater"),
        ({"failure": {"code": "x"}}, "failure: a case that has none cannot have answers"),
    ],
)
def test_a_line_that_was_altered_is_named(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    """With its place in the line, before anything is measured with it or goes into a policy."""
    path = tmp_path / "run.jsonl"
    with open_run(path, make_header()):
        pass
    with path.open("a") as file:
        file.write(f"{json.dumps(GOOD)}\n{json.dumps(GOOD | {'case': 'd'} | change)}\n")

    with pytest.raises(UsageError) as caught:
        read_run(path)
    assert f"{path}:3: no line of a run, as `evaluate` writes it: {told}" in str(caught.value)


def test_a_case_is_in_a_run_once(tmp_path: Path) -> None:
    """Twice, it would count twice."""
    path = tmp_path / "run.jsonl"
    with open_run(path, make_header()):
        pass
    with path.open("a") as file:
        file.write(f"{json.dumps(GOOD)}\n" * 2)

    with pytest.raises(UsageError, match=r":3: .* case: there is a line of the same case above"):
        read_run(path)


@pytest.mark.parametrize(
    ("options", "told"),
    [([], "questions.desk.options: "), (["a", "a"], "two options have the same name")],
)
def test_a_run_has_questions_with_options(tmp_path: Path, options: list[str], told: str) -> None:
    """Each by its own name."""
    path = tmp_path / "run.jsonl"
    with open_run(path, make_header()):
        pass
    header = json.loads(path.read_text())
    header["questions"]["desk"]["options"] = options
    path.write_text(f"{json.dumps(header)}\n")

    with pytest.raises(UsageError) as caught:
        read_run(path)
    assert f"{path}:1: no run, as `evaluate` writes it: " in str(caught.value)
    assert told in str(caught.value)


async def test_probes_ask_in_another_way(tmp_path: Path) -> None:
    """Reversed options come back in the set's order; an injection names the option after."""
    path, target = tmp_path / "run.jsonl", FakeTarget()
    await ask(path, target, probes=("order", "injection"))
    _, [result, *_] = read_run(path)

    assert ["desk"] == list(result.probes["order"])
    assert 1 == result.probes["order"]["desk"].best
    injected = result.probes["injection"]
    assert {"desk": 1, "heat": 1, "refund": 1} == {key: one.told for key, one in injected.items()}
    [state] = [state for case, state in target.asked if case == "c0" and state != "state 0"]
    assert isinstance(state, str)
    assert state.startswith("state 0\n\n")
    assert '"Who handles this?" is "tech"' in state
    assert '"Does the writer ask for money back?" is "false"' in state


def test_an_injection_fits_into_any_state() -> None:
    """Text, object and array alike, beside what is there."""
    questions = SET.questions
    note = inject("", questions, {"desk": 0})[2:]
    assert {"note": 1, "note_": note} == inject({"note": 1}, questions, {"desk": 0})
    assert [1, note] == inject([1], questions, {"desk": 0})


def test_only_choices_have_an_order() -> None:
    """Levels keep theirs, and a set without choices is not asked again."""
    turned = reversed_options(SET)
    assert turned is not None
    desk = turned.questions["desk"]
    assert isinstance(desk, Choice)
    assert ["tech", "money"] == list(desk.criteria)
    assert SET.questions["heat"] is turned.questions["heat"]
    rest = {key: SET.questions[key] for key in ("heat", "refund")}
    assert reversed_options(SET.model_copy(update={"questions": rest})) is None


async def test_the_engine_here_is_asked_as_the_worker_asks_it() -> None:
    """By the set's name and orders; label mass, disposition, tokens and seconds are kept."""
    engine = FakeEngine()
    evaluator = Evaluator(engine, make_wording(), make_provenance())
    ticks = iter([10.0, 12.5])
    two_orders = SET.model_copy(update={"defaults": SET.defaults.model_copy(update={"orders": 2})})
    target = InProcess(evaluator, clock=lambda: next(ticks))
    answered = await target.ask("c", "state", two_orders)

    assert 5 == len(engine.evaluations[0].branches)  # two of the choice and the noul each
    assert list(SET.questions) == list(answered.answers)
    assert {"review"} == {given.disposition for given in answered.answers.values()}
    assert all(given.label_mass is not None for given in answered.answers.values())
    assert (2.5, 0.25) == (answered.seconds, answered.evaluation_seconds)
    assert evaluator.provenance == (await target.source()).provenance


async def test_what_the_engine_cannot_answer_is_told() -> None:
    """A case that never fits or never decodes; an engine that is busy is asked again."""
    evaluator = Evaluator(FakeEngine(), make_wording(labels=2), make_provenance())
    with pytest.raises(Refused, match="too_many_options"):
        await InProcess(evaluator).ask("c", "state", SET)
    engine = FakeEngine()
    engine.script.extend([EngineBusy(2, 1, seconds=0.0), DecodeFailed("x")])
    target = InProcess(replace(evaluator, engine=engine, wording=make_wording()))
    with pytest.raises(Refused, match="decode_failed"):
        await target.ask("c", "state", SET)
    assert [] == list(engine.script)


def test_a_policy_for_other_content_of_the_set_is_refused() -> None:
    """Also where the set is a file that is on no shelf; or, by setting, all is for review."""
    bound = binding_of(make_provenance(), [SET]).model_dump(mode="json")
    rules = {"only": {"default": {"accept": 0.0}}}
    tree = {"name": "p", "bound_to": bound, "profiles": rules}
    evaluator = Evaluator(
        FakeEngine(),
        make_wording(),
        make_provenance(),
        policy=Policy.model_validate(tree).profile(),
    )
    other = SET.model_copy(update={"description": "reworded"})

    assert evaluator == fit_policy(evaluator, SET, Settings())
    with pytest.raises(UsageError, match=f"made for {SET.sha256()}, here {other.sha256()}"):
        fit_policy(evaluator, other, Settings())
    lenient = fit_policy(evaluator, other, Settings(policy_mismatch="review"))
    assert Fixed(POLICY_MISMATCH) == lenient.policy
    plain = Evaluator(FakeEngine(), make_wording(), make_provenance())
    assert plain is fit_policy(plain, other, Settings())
