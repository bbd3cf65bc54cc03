"""`hub.sets`: how a test controls the service of scale sets, and what goes wrong there.

made = hub.sets.create("acme/widgets", "bullpen-medium")     # as an administrator; or through the API
hub.sets.of("bullpen-medium").session, .capacity, .messages; hub.sets.statistics("bullpen-medium")
hub.sets.delete("bullpen-medium")                            # as in an incident

hub.sets.is_enterprise = True                                # jobs are offered, and other addresses
hub.sets.long_poll = 0.2                                     # seconds, until a poll is answered without a message
hub.advance(50)                                              # a session without a poll has ended
hub.advance(300)                                             # an assignment that no runner took has lapsed
hub.sets.frees_on_delete = False                             # a session that is closed keeps its place until then
hub.sets.revoke_jwts(), .end_queue_tokens(), .drop_session("bullpen-medium")
hub.sets.statistics_lag = 30.0; hub.sets.add_phantoms("bullpen-medium", 15)
hub.sets.lose("JobCompleted"), .delay("JobStarted", 60), .repeat("bullpen-medium"), .garble("body"), .add_mark()
hub.sets.answer_empty(), .open_without_queue()
hub.sets.tell("JobCompleted", job)                           # though it is not true
hub.sets.busy_known_after = 60.0                             # until then a runner can be removed under its job
hub.sets.make_ghost("r-1")                                   # it goes on listening, and is not registered
"""

from __future__ import annotations

from fakes.github import runners
from fakes.github.scale_sets.records import Json, Message, ScaleSet, SetJob
from fakes.github.scale_sets.service import SetService
from fakes.github.state import Job, Runner
from fakes.github.wire import WireRequest


class SetControl:
    """A control call takes effect before it returns, on whichever thread."""

    def __init__(self, service: SetService) -> None:
        self._service, self._sets, self._state = service, service.sets, service.state
        self._lost: dict[str, int] = {}
        self._late: dict[str, tuple[float, int]] = {}
        self._garbled: list[str] = []
        self._sets.spoil, self._sets.garble = self._spoiled, self._garble

    # ----------------------------------------------------------------------------------------------------------- sets

    def create(self, scope: str, name: str, *, labels: tuple[str, ...] = (), group: int = 1) -> ScaleSet:
        with self._state.lock:
            return self._sets.create(scope, name, group, labels, disable_update=True)

    def of(self, name: str) -> ScaleSet:
        """KeyError if there is none of this name."""
        with self._state.lock:
            for found in self._sets.sets.values():
                if found.name == name:
                    return found
        raise KeyError(name)

    def all(self) -> list[ScaleSet]:
        with self._state.lock:
            return list(self._sets.sets.values())

    def delete(self, name: str) -> None:
        with self._state.lock:
            self._sets.delete(self.of(name))

    def statistics(self, name: str) -> Json:
        with self._state.lock:
            return self._sets.statistics(self.of(name))

    def add_runner(self, name: str, set_name: str, *, online: bool = True) -> Runner:
        """A registration of a set without a process behind it; `hub.begin` gives it a job."""
        with self._state.lock:
            found = self.of(set_name)
            runner = runners.add(self._state, found.scope, name, (), group=found.group, ephemeral=True)
            runner.scale_set, runner.serving = found.id, found.labels
            runner.is_session_open, runner.seen_at = online, self._state.clock()
            self._state.changed()
            return runner

    @property
    def requests(self) -> list[WireRequest]:
        """Everything that was asked of the service, in order."""
        return list(self._service.requests)

    # --------------------------------------------------------------------------------------------------- kind and time

    @property
    def is_enterprise(self) -> bool:
        return self._service.operations.is_enterprise

    @is_enterprise.setter
    def is_enterprise(self, value: bool) -> None:
        with self._state.lock:
            self._service.operations.is_enterprise = self._sets.offers = value
            self._service.begin(self._service.operations.url)

    @property
    def long_poll(self) -> float:
        return self._service.long_poll

    @long_poll.setter
    def long_poll(self, seconds: float) -> None:
        self._service.long_poll = seconds

    @property
    def statistics_lag(self) -> float:
        return self._sets.statistics_lag

    @statistics_lag.setter
    def statistics_lag(self, seconds: float) -> None:
        with self._state.lock:
            for found in self._sets.sets.values():
                self._sets.statistics(found)
            self._sets.statistics_lag = seconds

    @property
    def busy_known_after(self) -> float:
        return self._state.busy_known_after

    @busy_known_after.setter
    def busy_known_after(self, seconds: float) -> None:
        self._state.busy_known_after = seconds

    @property
    def frees_on_delete(self) -> bool:
        return self._sets.frees_on_delete

    @frees_on_delete.setter
    def frees_on_delete(self, value: bool) -> None:
        self._sets.frees_on_delete = value

    @property
    def reruns_are_announced(self) -> bool:
        return self._sets.reruns_are_announced

    @reruns_are_announced.setter
    def reruns_are_announced(self, value: bool) -> None:
        """To a set without a registered runner; github.com is said not to."""
        self._sets.reruns_are_announced = value

    # --------------------------------------------------------------------------------------------------------- failures

    def revoke_jwts(self) -> None:
        self._service.revoke()

    def end_queue_tokens(self) -> None:
        with self._state.lock:
            for found in self._sets.sets.values():
                if found.session is not None:
                    found.session.token_ends = self._state.clock()
            self._state.changed()

    def drop_session(self, name: str) -> None:
        with self._state.lock:
            self._sets.end_session(self.of(name))

    def add_phantoms(self, name: str, count: int) -> None:
        """The statistics count so many more assigned jobs from now on, or (negative) fewer."""
        with self._state.lock:
            self.of(name).phantoms += count
            self._state.changed()

    def lose(self, kind: str, times: int = 1) -> None:
        """The next entries of this kind are never sent."""
        self._lost[kind] = times

    def delay(self, kind: str, seconds: float, times: int = 1) -> None:
        """The next entries of this kind are sent so late, by GitHub's clock."""
        self._late[kind] = (seconds, times)

    def repeat(self, name: str, times: int = 1) -> None:
        """The latest message of a set that is not acknowledged comes again after that."""
        with self._state.lock:
            self.of(name).messages[-1].repeats += times

    def garble(self, part: str) -> None:
        """The next message cannot be read: its body, an entry (one is added), its type, or the whole message."""
        self._garbled.append(part)

    def add_mark(self) -> None:
        """Answers begin with a byte order mark from now on."""
        self._service.has_mark = True

    def answer_empty(self, times: int = 1) -> None:
        self._service.empty_answers = times

    def open_without_queue(self, times: int = 1) -> None:
        self._service.operations.without_queue = times

    def tell(self, kind: str, job: Job) -> None:
        """Send an entry about a job of a set, true or not."""
        with self._state.lock:
            self._sets.tell(kind, self._held(job))
            self._state.changed()

    def make_ghost(self, name: str) -> None:
        with self._state.lock:
            runner = next(one for one in self._state.runners.values() if one.name == name)
            self._state.ghosts.add(runner.id)
            self._state.remove_runner(runner)

    def _held(self, job: Job) -> SetJob:
        return next(one for one in self._sets.jobs if one.job is job)

    def _spoiled(self, kind: str, entry: Json) -> float | None:
        if self._lost.get(kind):
            self._lost[kind] -= 1
            return None
        seconds, times = self._late.get(kind, (0.0, 0))
        if not times:
            return 0.0
        self._late[kind] = (seconds, times - 1)
        return seconds

    def _garble(self, message: Message) -> str:
        return self._garbled.pop(0) if self._garbled else ""
