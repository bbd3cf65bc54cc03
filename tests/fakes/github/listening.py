"""What runners say to GitHub, in words of our own: the real protocol is private to GitHub, and so is this one.

    register {url, token, name, labels, version, group, disable_update, ephemeral}  200 {id, secret} | 401 | 404 | 409
    remove   {url, token, name}                                                     204 | 401 | 404 | 409 busy
    session  {id, secret, version}            200 | 404 deleted | 409 another listens | 426 version deprecated
    leave    {id, secret}                     204
    next     {id, secret, wait}               200 {job} | 204 nothing within `wait` | 404 deleted or no session
    started  {id, secret, job}                204 | 410 not its job any more: cancelled, or given up for lost
    renew    {id, secret, job, log}           200 {cancel}: whether to stop | 410
    finish   {id, secret, job, conclusion, log, outputs}                            204 | 410

All are POST of /_runner/<word>, and 404 for a runner that was deleted meanwhile. A busy runner is not removed.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from fakes.github import flow, oidc, runners
from fakes.github.state import DEFAULT_GROUP, QUEUED, Job, Runner, State
from fakes.github.wire import WireAnswer

Json = dict[str, Any]
LONGEST_WAIT = 50.0  # seconds
GONE = "the runner was deleted, or the secret is wrong"


class ListeningRefusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RunnerSessions:
    def __init__(self, state: State, url: str) -> None:
        self._state = state
        self._url = url
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Every listener that waits for a job looks again. To be called on the server's loop."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def serve(self, word: str, asked: Json) -> WireAnswer:
        try:
            if word == "next":
                return await self._next(asked)
            answer = {
                "register": self._register,
                "remove": self._remove,
                "session": self._session,
                "leave": self._leave,
                "started": self._started,
                "renew": self._renew,
                "finish": self._finish,
            }[word]
            with self._state.lock:
                return answer(asked)
        except ListeningRefusal as no:
            return WireAnswer(no.status, {"message": str(no)})

    # ---------------------------------------------------------------------------------------------------- registration

    def _register(self, asked: Json) -> WireAnswer:
        scope = self._ticket(asked, "registration")
        if not 0 < len(asked["name"]) <= 64:
            raise ListeningRefusal(400, "the name of a runner has 1 to 64 characters")
        if runners.is_taken(self._state, scope, asked["name"]):
            raise ListeningRefusal(409, f"A runner exists with the same name {asked['name']}")
        name = asked.get("group") or ""
        groups = {group.name: group.id for group in self._state.groups_of(scope)} | {"": DEFAULT_GROUP}
        if name not in groups:
            raise ListeningRefusal(404, f'Could not find any self-hosted runner group named "{name}".')
        runner = runners.add(
            self._state,
            scope,
            asked["name"],
            asked["labels"],
            version=asked.get("version", ""),
            group=groups[name],
            ephemeral=bool(asked.get("ephemeral")),
        )
        runner.settings = {name: value for name, value in asked.items() if name != "token"}
        return WireAnswer(200, {"id": runner.id, "secret": runner.secret})

    def _remove(self, asked: Json) -> WireAnswer:
        scope = self._ticket(asked, "removal")
        for runner in list(self._state.runners.values()):
            if runner.name == asked["name"] and runner.scope.lower() == scope.lower():
                if runner.busy:
                    raise ListeningRefusal(409, f'Runner "{runner.name}" is still running a job')
                self._state.remove_runner(runner)
                return WireAnswer(204)
        raise ListeningRefusal(404, "there is no runner of this name")

    def _ticket(self, asked: Json, kind: str) -> str:
        scope = urlsplit(asked["url"]).path.strip("/")
        if not self._state.has_scope(scope):
            raise ListeningRefusal(404, f"there is nothing at {asked['url']}")
        ticket = self._state.tickets.get(asked.get("token", ""))
        if ticket is None or ticket.kind != kind or ticket.scope.lower() != scope.lower():
            raise ListeningRefusal(401, f"this is no {kind} token of {scope}")
        if ticket.expires_at <= self._state.clock():
            raise ListeningRefusal(401, f"the {kind} token has expired")
        return scope

    # --------------------------------------------------------------------------------------------------------- session

    def _session(self, asked: Json) -> WireAnswer:
        runner = self._runner(asked)
        version = asked.get("version", "")
        if self._state.oldest_version and _number(version) < _number(self._state.oldest_version):
            raise ListeningRefusal(426, f"Runner version v{version} is deprecated and cannot receive messages.")
        if runner.polls:
            raise ListeningRefusal(409, "A session for this runner already exists.")
        runner.version, runner.is_session_open, runner.seen_at = version, True, self._state.clock()
        self._state.changed()
        return WireAnswer(200, {})

    def _leave(self, asked: Json) -> WireAnswer:
        self._runner(asked).is_session_open = False
        self._state.changed()
        return WireAnswer(204)

    async def _next(self, asked: Json) -> WireAnswer:
        ends = asyncio.get_running_loop().time() + min(float(asked.get("wait", 0)), LONGEST_WAIT)
        if asked["id"] in self._state.ghosts:
            await asyncio.sleep(float(asked.get("wait", 0)))
            return WireAnswer(204)
        with self._state.lock:
            polling = self._runner(asked)
            if not polling.is_session_open:
                raise ListeningRefusal(404, "the session is closed")
            polling.polls += 1
        try:
            while True:
                changed = self._changed
                with self._state.lock:
                    if polling.id in self._state.ghosts:
                        return WireAnswer(204)
                    if not self._runner(asked).is_session_open:
                        raise ListeningRefusal(404, "the session is closed")
                    if job := flow.take(self._state, polling):
                        return WireAnswer(200, {"job": self._shown(job, polling)})
                left = ends - asyncio.get_running_loop().time()
                if left <= 0:
                    return WireAnswer(204)
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except TimeoutError:
                    return WireAnswer(204)
        finally:
            with self._state.lock:
                polling.polls -= 1
                polling.seen_at = self._state.clock()

    # ------------------------------------------------------------------------------------------------------------ jobs

    def _started(self, asked: Json) -> WireAnswer:
        job, runner = self._job(asked)
        if job.status != QUEUED:
            raise ListeningRefusal(410, f"the job is {job.status}")
        flow.begin(self._state, job, runner.name)
        return WireAnswer(204)

    def _renew(self, asked: Json) -> WireAnswer:
        job, _ = self._job(asked)
        job.renewed_at, job.log = self._state.clock(), asked.get("log", "")
        return WireAnswer(200, {"cancel": job.run.is_cancelled})

    def _finish(self, asked: Json) -> WireAnswer:
        job, _ = self._job(asked)
        job.log = asked.get("log", job.log)
        job.outputs.update(asked.get("outputs") or {})
        flow.finish(self._state, job, asked["conclusion"])
        return WireAnswer(204)

    def _runner(self, asked: Json) -> Runner:
        runner = self._state.runners.get(asked["id"])
        if runner is None or runner.secret != asked["secret"]:
            raise ListeningRefusal(404, GONE)
        return runner

    def _job(self, asked: Json) -> tuple[Job, Runner]:
        removed = self._state.removed_busy.get(asked["id"])
        runner = removed if removed and removed.secret == asked["secret"] else self._runner(asked)
        runner.seen_at = self._state.clock()
        if runner.job is None or runner.job.id != asked["job"]:
            raise ListeningRefusal(410, "the job is not this runner's any more")
        return runner.job, runner

    def _shown(self, job: Job, runner: Runner) -> Json:
        run = job.run
        return {
            "id": job.id,
            "name": job.name,
            "key": job.key,
            "run_id": run.id,
            "run_attempt": job.attempt,
            "repository": run.repository.name,
            "script": flow.resolve(job.spec.script, run),
            "always": flow.resolve(job.spec.always, run),
            "env": {
                "CI": "true",
                "GITHUB_ACTIONS": "true",
                "GITHUB_ACTOR": "octocat",
                "GITHUB_API_URL": f"{self._url}/api/v3",
                "GITHUB_EVENT_NAME": run.event,
                "GITHUB_JOB": job.key,
                "GITHUB_REF": f"refs/heads/{run.head_branch}",
                "GITHUB_REPOSITORY": run.repository.name,
                "GITHUB_REPOSITORY_ID": str(run.repository.id),
                "GITHUB_RUN_ATTEMPT": str(job.attempt),
                "GITHUB_RUN_ID": str(run.id),
                "GITHUB_RUN_NUMBER": str(run.number),
                "GITHUB_SERVER_URL": self._url,
                "GITHUB_SHA": run.head_sha,
                "GITHUB_WORKFLOW": run.name,
                "RUNNER_NAME": runner.name,
                **oidc.environment(self._url, job),
                **{name: flow.resolve(value, run) for name, value in job.spec.env.items()},
            },
        }


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
