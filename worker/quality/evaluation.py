"""Ask about all cases of a run that are not in its file yet."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from worker.decision.canonical import canonical_sha256
from worker.decision.question_set import QuestionSet
from worker.quality.asking import Answered, Refused, Target
from worker.quality.cases import Case
from worker.quality.probes import inject, injection_targets, reversed_options
from worker.quality.run_file import Failure, Given, Probe, Probed, Result, RunFile


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Asks a target, some cases at once, and notes each as soon as it is answered.

    Attributes:
        target: who is asked.
        question_set: what is asked.
        probes: in which other ways it is asked too.
        run: where results are noted.
        at_once: cases that are asked about at the same time.
        on_step: told that so many more cases are done.
        stopping: set to end after the cases in flight.
    """

    target: Target
    question_set: QuestionSet
    probes: Sequence[Probe]
    run: RunFile
    at_once: int
    on_step: Callable[[int], None] = lambda _: None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask_all(self, cases: Sequence[Case]) -> None:
        """Ask about the cases that have no result yet.

        Raises:
            WorkerError: the target answers no longer; what it answered is noted.
        """
        waiting = iter([case for case in cases if case.case_id not in self.run.known])
        self.on_step(len(cases) - sum(case.case_id not in self.run.known for case in cases))
        askers = [self._ask_some(waiting) for _ in range(self.at_once)]
        # Not cancelled when one fails: what is in flight is waited for and noted.
        ends = await asyncio.gather(*askers, return_exceptions=True)
        for error in ends:
            if error is not None:
                raise error

    async def _ask_some(self, waiting: Iterator[Case]) -> None:
        # All askers take from one iterator, which never waits.
        while not self.stopping.is_set() and (case := next(waiting, None)):
            try:
                self.run.add(await self._result(case))
            except BaseException:
                self.stopping.set()
                raise
            self.on_step(1)

    async def _result(self, case: Case) -> Result:
        result = Result(
            case=case.case_id,
            state_sha256=canonical_sha256(case.state),
            expected=dict(case.expected),
        )
        try:
            answered = await self.target.ask(case.case_id, case.state, self.question_set)
            probed = await self._probe(case, answered)
        except Refused as fault:
            failure = Failure(code=fault.code, message=fault.message)
            return result.model_copy(update={"failure": failure})
        return result.model_copy(
            update={
                "answers": dict(answered.answers),
                "probes": probed,
                "seconds": answered.seconds,
                "evaluation_seconds": answered.evaluation_seconds,
                "input_tokens": answered.input_tokens,
                "evaluated_tokens": answered.evaluated_tokens,
            }
        )

    async def _probe(self, case: Case, answered: Answered) -> dict[Probe, dict[str, Probed]]:
        probed: dict[Probe, dict[str, Probed]] = {}
        if "order" in self.probes:
            probed["order"] = await self._in_reverse(case)
        if "injection" in self.probes:
            probed["injection"] = await self._injected(case, answered.answers)
        return probed

    async def _in_reverse(self, case: Case) -> dict[str, Probed]:
        turned = reversed_options(self.question_set)
        if turned is None:
            return {}
        answered = await self.target.ask(case.case_id, case.state, turned)
        return {
            key: Probed(probabilities=answered.answers[key].probabilities[::-1])
            for key, question in turned.questions.items()
            if question is not self.question_set.questions[key]
        }

    async def _injected(self, case: Case, answers: Mapping[str, Given]) -> dict[str, Probed]:
        questions = self.question_set.questions
        best = {key: given.best for key, given in answers.items()}
        targets = injection_targets(questions, best)
        state = inject(case.state, questions, targets)
        answered = await self.target.ask(case.case_id, state, self.question_set)
        return {
            key: Probed(probabilities=answered.answers[key].probabilities, told=told)
            for key, told in targets.items()
        }
