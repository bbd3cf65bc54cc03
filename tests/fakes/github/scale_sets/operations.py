"""What a caller with the service's JWT may ask: groups, sets, sessions, registrations of runners. The state's lock is
held."""

from __future__ import annotations

import re
from collections.abc import Callable

from fakes.github import runners
from fakes.github.scale_sets.protocol import AGENTS, QUEUES, SETS, SetRefusal, Violations, listed
from fakes.github.scale_sets.records import Json, ScaleSet, Session
from fakes.github.scale_sets.sets import Sets
from fakes.github.state import DEFAULT_GROUP, Runner
from fakes.github.views import at
from fakes.github.wire import WireAnswer, WireRequest


class Operations:
    def __init__(self, sets: Sets, violations: Violations) -> None:
        self.sets, self.state, self._violations = sets, sets.state, violations
        self.url = ""
        self.is_enterprise = False
        self.without_queue = 0  # sessions that are opened without the address of their queue

    def answer(self, request: WireRequest, scope: str, path: str) -> WireAnswer:
        table: list[tuple[str, Callable[..., WireAnswer]]] = [
            (r"GET _apis/runtime/runnergroups/", self._groups),
            (rf"GET {SETS}", self._list),
            (rf"POST {SETS}", self._create),
            (rf"(?:GET|PATCH|DELETE) {SETS}/(\d+)", self._set),
            (rf"POST {SETS}/(\d+)/generatejitconfig", self._configure),
            (rf"POST {SETS}/(\d+)/sessions", self._open),
            (rf"(?:PATCH|DELETE) {SETS}/(\d+)/sessions/([^/]+)", self._session),
            (rf"GET {AGENTS}", self._runners),
            (rf"(?:GET|DELETE) {AGENTS}/(\d+)", self._runner),
        ]
        for pattern, answer in table:
            if match := re.fullmatch(pattern, f"{request.method} {path}"):
                return answer(request, scope, *match.groups())
        self._violations.note(request, "the service has no such operation")
        raise SetRefusal(404)

    # ------------------------------------------------------------------------------------------------ sets and runners

    def _groups(self, request: WireRequest, scope: str) -> WireAnswer:
        wanted = request.query.get("groupName")
        found = [one for one in self.state.groups_of(scope) if wanted in (None, one.name)]
        return listed([{"id": one.id, "name": one.name, "isDefaultGroup": one.id == DEFAULT_GROUP} for one in found])

    def _list(self, request: WireRequest, scope: str) -> WireAnswer:
        group, name = request.query.get("runnerGroupId"), request.query.get("name")
        mine = [one for one in self.sets.sets.values() if one.scope.lower() == scope.lower()]
        found = [one for one in mine if group in (None, str(one.group)) and name in (None, one.name)]
        return listed([self._shown(one) for one in found])

    def _create(self, request: WireRequest, scope: str) -> WireAnswer:
        asked = self._spec(request)
        self._check_free(scope, asked["runnerGroupId"], asked["name"], None)
        labels = tuple(label["name"] for label in asked["labels"])
        disable = bool(asked["RunnerSetting"].get("disableUpdate"))
        return WireAnswer(
            200, self._shown(self.sets.create(scope, asked["name"], asked["runnerGroupId"], labels, disable))
        )

    def _set(self, request: WireRequest, scope: str, id: str) -> WireAnswer:
        found = self._of(scope, id)
        if request.method == "DELETE":
            self.sets.delete(found)
            return WireAnswer(204)
        if request.method == "PATCH":
            asked = self._spec(request)
            self._check_free(scope, asked["runnerGroupId"], asked["name"], found)
            found.name, found.group = asked["name"], asked["runnerGroupId"]
            found.labels = tuple(label["name"] for label in asked["labels"])
            found.disable_update = bool(asked["RunnerSetting"].get("disableUpdate"))
            for runner in self.sets.runners(found):
                runner.serving = found.labels
            self.state.changed()
        return WireAnswer(200, self._shown(found))

    def _configure(self, request: WireRequest, scope: str, id: str) -> WireAnswer:
        found, asked = self._of(scope, id), self._violations.body(request, "name", "workFolder")
        name = asked["name"]
        if not 0 < len(name) <= 64:
            raise SetRefusal(400, "GitHub.DistributedTask.WebApi.InvalidAgentNameException", "1 to 64 characters")
        if runners.is_taken(self.state, scope, name):
            raise SetRefusal(
                409, "GitHub.DistributedTask.WebApi.AgentExistsException", f"A runner {name} already exists."
            )
        runner = runners.add(self.state, scope, name, (), group=found.group, ephemeral=True)
        runner.scale_set, runner.serving = found.id, found.labels
        self.state.changed()
        encoded = runners.encoded_config(self.url, runner, asked["workFolder"] or "_work")
        return WireAnswer(200, {"runner": _shown_runner(runner), "encodedJITConfig": encoded})

    def _runners(self, request: WireRequest, scope: str) -> WireAnswer:
        mine = [one for one in self.state.runners.values() if one.scope.lower() == scope.lower()]
        return listed([_shown_runner(one) for one in mine if one.name == request.query.get("agentName")])

    def _runner(self, request: WireRequest, scope: str, id: str) -> WireAnswer:
        runner = self.state.runners.get(int(id))
        if runner is None or runner.scope.lower() != scope.lower():
            raise SetRefusal(
                404, "GitHub.DistributedTask.WebApi.AgentNotFoundException", f"No agent found with id {id}."
            )
        if request.method == "GET":
            return WireAnswer(200, _shown_runner(runner))
        if self.state.knows_busy(runner):
            kind = "GitHub.DistributedTask.WebApi.JobStillRunningException"
            raise SetRefusal(400, kind, f"Runner {runner.name} is still running a job.")
        self.state.remove_runner(runner)
        return WireAnswer(204)

    # -------------------------------------------------------------------------------------------------------- sessions

    def _open(self, request: WireRequest, scope: str, id: str) -> WireAnswer:
        found, asked = self._of(scope, id), self._violations.body(request, "ownerName")
        session = self.sets.open(found, asked["ownerName"])
        if session is None:
            kind = "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionConflictException"
            raise SetRefusal(409, kind, f"The scale set {found.name} has a session already.")
        shown = self._shown_session(session)
        if self.without_queue:
            self.without_queue -= 1
            del shown["messageQueueUrl"]
        return WireAnswer(200, shown)

    def _session(self, request: WireRequest, scope: str, id: str, session_id: str) -> WireAnswer:
        found = self._of(scope, id)
        session = found.session
        if session is None or session.id != session_id:
            raise SetRefusal(
                404, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionNotFoundException", "no such session"
            )
        if request.method == "DELETE":
            if self.sets.frees_on_delete:
                self.sets.end_session(found)
            return WireAnswer(204)
        if request.body:
            self._violations.note(request, "a renewal has no body")
        session.renew(self.state.clock())
        self.state.changed()
        return WireAnswer(200, self._shown_session(session))

    # --------------------------------------------------------------------------------------------------------- details

    def _of(self, scope: str, id: str) -> ScaleSet:
        found = self.sets.sets.get(int(id))
        if found is None or found.scope.lower() != scope.lower():
            kind = "GitHub.Actions.Runtime.WebApi.RunnerScaleSetNotFoundException"
            raise SetRefusal(404, kind, f"No runner scale set found with identifier {id}.")
        return found

    def _check_free(self, scope: str, group: int, name: str, own: ScaleSet | None) -> None:
        if group not in [one.id for one in self.state.groups_of(scope)]:
            raise SetRefusal(404, "GitHub.Actions.Runtime.WebApi.RunnerGroupNotFoundException", f"no group {group}")
        others = [one for one in self.sets.sets.values() if one is not own and one.scope.lower() == scope.lower()]
        if any((one.group, one.name) == (group, name) for one in others):
            raise SetRefusal(409, "GitHub.Actions.Runtime.WebApi.RunnerScaleSetExistsException", f"{name} exists")

    def _spec(self, request: WireRequest) -> Json:
        asked = self._violations.body(request, "name", "runnerGroupId", "labels", "RunnerSetting")
        if any(label.get("type") != "System" or not label.get("name") for label in asked["labels"]):
            self._violations.note(request, "a label without a name, or of another type than System")
        return asked

    def _shown(self, found: ScaleSet) -> Json:
        return {
            "id": found.id,
            "name": found.name,
            "runnerGroupId": found.group,
            "labels": [{"id": n, "name": label, "type": "System"} for n, label in enumerate(found.labels)],
            "RunnerSetting": {"disableUpdate": found.disable_update},
            "createdOn": at(found.created_at),
            "statistics": self.sets.statistics(found),
        }

    def _shown_session(self, session: Session) -> Json:
        return {
            "sessionId": session.id,
            "ownerName": session.owner,
            "runnerScaleSet": self._shown(session.set),
            "messageQueueUrl": f"{self.url}{QUEUES[self.is_enterprise]}?sessionId={session.id}",
            "messageQueueAccessToken": session.token,
            "statistics": self.sets.statistics(session.set),
        }


def _shown_runner(runner: Runner) -> Json:
    return {"id": runner.id, "name": runner.name, "runnerScaleSetId": runner.scale_set}
