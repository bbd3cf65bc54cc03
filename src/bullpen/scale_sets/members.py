"""Which instances serve a set, and what each of them does, by its record and the heartbeats of its agent.

    starting   claimed, or engaged and not listening yet
    idle       a living agent reports that its runner listens
    busy       a living agent reports the job that it prepares or executes, or stopped listening a moment ago
    cleaning   between two jobs, or without a sign of life: it counts towards the largest number only

A member that is silent may be starting or cleaning by these rules, and still have a job: its agent may be dead or cut
off, while its runner goes on for the CI. So a member counts as free only while its agent is heard.

GitHub's counts of runners include registrations of dead machines, so they are never used.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.model.activity import Activity, Listening, named_runner, parse, parse_listening
from bullpen.model.instance import CLAIMED, RUNNING, Instance
from bullpen.model.signal import Heartbeat, Pulse
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.scale_sets.started_jobs import RunnerWord

REPORTED = 10.0  # seconds from the moment that a runner gets a job until a heartbeat of its agent says so
TOLD = 10.0  # seconds after which the CI has said that a runner had a job, if it had one: its messages gather
REMEMBERED = 1000  # names of runners that had a job: more than a set gets within that time


class MemberState(StrEnum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    CLEANING = "cleaning"


@dataclass(frozen=True, slots=True)
class SetMember:
    """`since` is when this process first saw it in this state, by the event loop; 0 for one that was busy then: its job
    is not one that began since. Of one that is not heard, nothing is known: neither a registration nor a job."""

    instance: Instance
    state: MemberState
    since: float
    listening: Listening | None = None
    activity: Activity | None = None
    is_heard: bool = False  # its agent lives

    @property
    def id(self) -> str:
        return self.instance.id


@dataclass(slots=True)
class _Seen:
    round: str
    state: MemberState
    since: float
    heartbeat: Heartbeat | None = None
    moved_at: float | None = None  # when the heartbeat last changed
    had_job: bool = False  # in this state, by a heartbeat
    listening: Listening | None = None  # the runner that listened last, unless a heartbeat has shown it with a job


class MemberWatch:
    """Reads the members of one set again and again, and remembers since when each is what it is.

    No member is missed, although the list of a run's instances may lag. What this process has claimed or seen, and at
    first every live instance, is read by its id where the list lacks it, and that is consistent.
    """

    def __init__(self, ports: Ports, settings: Settings, run_id: str) -> None:
        self._ports = ports
        self._settings = settings
        self._run_id = run_id
        self._seen: dict[str, _Seen] = {}
        self.pulses: dict[str, Pulse] = {}
        self._idle_ends: dict[str, float] = {}  # when each was seen
        self._expected: dict[str, None] = {}  # may be members
        self._has_looked = False  # through all live instances
        self._worked: dict[str, None] = {}  # runners that got a job by the CI's word, the latest last

    def expect(self, ids: Iterable[str]) -> None:
        """These may be members that no list shows yet: the next reading asks for their records."""
        self._expected |= dict.fromkeys(ids)

    async def read(self) -> list[SetMember]:
        listed = {one.id: one for one in await self._ports.records.run_instances(self._run_id)}
        if not self._has_looked:  # a list may not show yet what the holder before has claimed
            self.expect([one.id for one in await every_live(self._ports)])
            self._has_looked = True
        hidden = [id for id in {**self._seen, **self._expected} if id not in listed]
        listed |= await self._ports.records.instances(hidden) if hidden else {}
        of_set = [one for _, one in sorted(listed.items()) if one.run_id == self._run_id]
        found = [one for one in of_set if one.state in (CLAIMED, RUNNING)]
        self.pulses = await self._ports.signals.read([one.id for one in found]) if found else {}
        self._expected.clear()  # not before: if a request fails, the next reading asks for them again
        self._seen = {one.id: self._seen[one.id] for one in found if one.id in self._seen}
        return [self._view(one, self.pulses[one.id]) for one in found]

    def take_idle_ends(self, at_work: Collection[str]) -> list[str]:
        """The names of runners that ended without a job and were replaced by another runner of the same round a while
        ago, each once. `at_work` are runners that have a job according to the CI: a heartbeat does not show a job that
        ends before the heartbeat is read."""
        self._worked |= dict.fromkeys(at_work)
        for name in [*self._worked][:-REMEMBERED]:
            del self._worked[name]
        now = asyncio.get_running_loop().time()
        left = {name: at for name, at in self._idle_ends.items() if name not in self._worked}
        self._idle_ends = {name: at for name, at in left.items() if now - at < TOLD}
        return [name for name in left if name not in self._idle_ends]

    def words(self) -> dict[str, RunnerWord]:
        """What living agents last reported about their runners, by instance, as of the last reading."""
        now, found = asyncio.get_running_loop().time(), {}
        for id, seen in self._seen.items():
            if seen.heartbeat is not None and self._lives(seen, now):
                runner = named_runner(seen.heartbeat.activity)
                found[id] = RunnerWord(runner, now if seen.moved_at is None else seen.moved_at)
        return found

    def _view(self, one: Instance, pulse: Pulse) -> SetMember:
        now = asyncio.get_running_loop().time()
        seen = self._seen.get(one.id)
        is_new = seen is None
        if seen is None:
            seen = self._seen[one.id] = _Seen(one.round, MemberState.STARTING, now, pulse.heartbeat)
            is_recent = pulse.is_recent(self._ports.clock.now(), self._settings.timings.alive)
            seen.moved_at = now if is_recent else None
        elif pulse.heartbeat != seen.heartbeat:
            seen.heartbeat, seen.moved_at = pulse.heartbeat, now
        is_heard = self._lives(seen, now)
        said = pulse.heartbeat.activity if pulse.heartbeat is not None and is_heard else ""
        activity, listening = parse(said), parse_listening(said)
        self._note_runner(one, seen, activity, listening)
        state = self._state(one, seen, activity, listening, now)
        if (state, one.round) != (seen.state, seen.round):
            since = 0.0 if is_new and state is MemberState.BUSY else now
            seen.state, seen.round, seen.since, seen.had_job = state, one.round, since, False
        seen.had_job |= activity is not None
        return SetMember(one, state, seen.since, listening, activity, is_heard)

    def _note_runner(self, one: Instance, seen: _Seen, activity: Activity | None, listening: Listening | None) -> None:
        before = seen.listening
        if activity is not None:
            seen.listening = None
        elif listening is not None and listening.is_of(one.round):
            seen.listening = listening
            # A new round is a recall, whose registration this pool has removed itself.
            if before is not None and before.listens != listening.listens and before.is_of(one.round):
                self._idle_ends[before.listens] = asyncio.get_running_loop().time()

    def _state(
        self, one: Instance, seen: _Seen, activity: Activity | None, listening: Listening | None, now: float
    ) -> MemberState:
        if activity is not None:
            return MemberState.BUSY
        if one.state is RUNNING and listening is not None and listening.is_of(one.round):
            return MemberState.IDLE
        was_idle = seen.state is MemberState.IDLE or (seen.state is MemberState.BUSY and not seen.had_job)
        if was_idle and one.round == seen.round and (seen.state is MemberState.IDLE or now - seen.since < REPORTED):
            return MemberState.BUSY
        is_new = seen.state is MemberState.STARTING or one.round != seen.round
        since = seen.since if one.round == seen.round else now
        if is_new and now - since < self._settings.timings.registration:
            return MemberState.STARTING
        return MemberState.CLEANING

    def _lives(self, seen: _Seen, now: float) -> bool:
        return seen.moved_at is not None and now - seen.moved_at <= self._settings.timings.alive


def runners_at_work(members: Sequence[SetMember]) -> set[str]:
    """The names of runners whose job a heartbeat names. One that prepares its job is busy, and names none yet."""
    return {one.activity.runner for one in members if one.activity is not None and one.activity.is_named}
