"""The thread that evaluates several tickets side by side."""

from collections import deque
from typing import TYPE_CHECKING

from worker.engine.calls import Aborted, NativeError
from worker.engine.context_thread import ContextThread
from worker.engine.options import ModelOptions
from worker.engine.packed import PackedRun
from worker.engine.packing import Room
from worker.engine.work import GivenUp, Work
from worker.errors import DecodeFailed, EngineFailed, WorkerError
from worker.ports import Reply

if TYPE_CHECKING:  # so that this thread can be tried without llama.cpp
    from worker.engine.llama import Model
    from worker.engine.pool import Pool


class PackedThread(ContextThread):
    """Fills each call with whatever is there.

    Work that was in a call which llama.cpp refused is tried once more, alone: so a ticket that
    cannot be evaluated fails by itself.
    """

    def __init__(self, pool: "Pool", model: "Model", options: ModelOptions, number: int) -> None:
        super().__init__(pool, model, options, number)
        self._run: PackedRun | None = None
        self._held: dict[Work, None] = {}  # everything that waits for this thread's answer
        self._suspects: deque[Work] = deque()
        self._alone: Work | None = None  # the suspect whose turn it is

    def open(self) -> None:
        """Make the context, with nothing in it.

        Raises:
            CannotRun: llama.cpp cannot.
        """
        super().open()
        room = Room(
            call_tokens=min(self._options.batch_tokens, self._options.context_tokens),
            sequences=self._options.sequences - 1,  # one is left for saving
            cells=self._options.context_tokens,
            shared_tokens=not self._model.is_recurrent,
        )
        self._run = PackedRun(self.opened(), self, room)

    def evaluate(self) -> None:
        """Take work and evaluate it, until there is none any more."""
        while True:
            try:
                if not self._admit():
                    return
                self._turn()
            except NativeError as error:
                self._refused(error)
            except WorkerError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - this thread must answer whoever waits
                self._fail(self.crashed(error))
            if not self._works():
                self.idle()

    def should_abort(self) -> bool:
        """Return whether nobody needs the call that is being made."""
        works = self._works()
        return bool(works) and all(work.is_useless() for work in works)

    def _works(self) -> list[Work]:
        return [] if self._run is None else self._run.works

    def _running(self) -> PackedRun:
        if self._run is None:
            raise EngineFailed("this context could not be rebuilt")
        return self._run

    def _admit(self) -> bool:
        """Take as much work as there is room for; False when the pool is closed."""
        if self._suspects and not self._works():
            self._alone = self._suspects.popleft()
            self._running().add(self._alone)
        if self._alone is not None:
            return True
        if not self._works():
            work = self._pool.take(self)
            if work is None:
                return False
            self._add(work)
        while (work := self._pool.take_if(self, self._running().takes)) is not None:
            self._add(work)
        return True

    def _add(self, work: Work) -> None:
        self._held[work] = None
        work.begin()
        run = self._running()
        try:
            run.add(work)
        except NativeError as error:  # its saved state is at fault, nothing else
            self.note_refusal(error)
            self.distrust([work])
            run.add(work)

    def _turn(self) -> None:
        """Make one call."""
        run = self._running()
        self._drop_useless(run)
        if not run.works:
            return
        self.progressed()
        try:
            left = run.step()
        except Aborted:
            self._drop_useless(run)
            if run.works:
                raise NativeError("llama.cpp gave a call up by itself") from None
            return
        for work in left:
            self._leave(work)
        self._make_room(run)
        self.resident_tokens = run.resident_tokens

    def _leave(self, work: Work) -> None:
        """Answer work that is done; what still has prompts to be read comes again."""
        readings = work.progress.readings
        if len(readings) == len(work.prompts):
            self._end(work, self.reply(work, tuple(readings[i] for i in range(len(readings)))))
        elif work is not self._alone:
            self._set_aside(work)
        else:
            self._running().add(work)

    def _make_room(self, run: PackedRun) -> None:
        """Set batch work aside for an interactive request that does not fit in beside it."""
        waiting = self._pool.waits_urgently()
        if waiting is None or self._alone is not None:
            return
        for work in run.in_the_way(waiting):
            run.set_aside(work)
            self._set_aside(work)

    def _set_aside(self, work: Work) -> None:
        del self._held[work]
        self._pool.set_aside(work)

    def _drop_useless(self, run: PackedRun) -> None:
        for work in run.works:
            try:
                work.check()
            except GivenUp:
                run.drop(work)
                self._end(work, EngineFailed("the engine is closed"))
            except WorkerError as error:
                run.drop(work)
                self._end(work, error)

    def _end(self, work: Work, answer: Reply | WorkerError) -> None:
        if work is self._alone:
            self._alone = None
        del self._held[work]
        work.resolve(answer)
        self.end(work)

    def _refused(self, error: NativeError) -> None:
        """Rebuild the context; suspect everything that was in it."""
        self.note_refusal(error)
        works = [work for work in self._held if work not in self._suspects]
        try:
            self.start_over(works)
        except EngineFailed as failure:
            self._fail(failure)
            return
        for work in works:
            if work is self._alone:
                self._end(work, DecodeFailed(f"llama.cpp refused the same work twice: {error}"))
            elif len(work.progress.readings) == len(work.prompts):
                self._leave(work)  # its last reading was in before another's failed
            else:
                self._suspects.append(work)

    def _fail(self, error: WorkerError) -> None:
        """Answer everything with *error*; the context is not to be trusted."""
        self._suspects.clear()
        self._run = None
        self.shut()
        for work in list(self._held):
            self._end(work, error)
