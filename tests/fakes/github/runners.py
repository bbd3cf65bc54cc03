"""The API's routes for self-hosted runners, of a repository and of an organisation."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fakes.github.calling import ApiCall, ApiRefusal, listed
from fakes.github.state import DEFAULT_GROUP, Runner, State, Ticket
from fakes.github.views import shown_group, shown_label, shown_repository, shown_runner
from fakes.github.wire import WireAnswer

TICKETS_LAST = timedelta(hours=1)
DEFAULT_LABELS = ("self-hosted", "Linux", "X64")


def add(
    state: State,
    scope: str,
    name: str,
    labels: Sequence[str],
    *,
    version: str = "",
    group: int = DEFAULT_GROUP,
    ephemeral: bool = False,
) -> Runner:
    runner = Runner(
        id=next(state.runner_ids),
        scope=scope,
        name=name,
        labels=tuple(labels),
        created_at=state.clock(),
        secret=secrets.token_urlsafe(24),
        version=version,
        group=group,
        ephemeral=ephemeral,
    )
    state.runners[runner.id] = runner
    state.changed()
    return runner


def by_name(state: State, repository: str, name: str) -> Runner | None:
    """One that may take jobs of a repository: its own, or its organisation's."""
    scopes = (repository.lower(), repository.lower().partition("/")[0])
    for runner in state.runners.values():
        if runner.name == name and runner.scope.lower() in scopes:
            return runner
    return None


def is_taken(state: State, scope: str, name: str) -> bool:
    taken = (one for one in state.runners.values() if one.scope.lower() == scope.lower())
    return any(one.name.lower() == name.lower() for one in taken)


def list_all(call: ApiCall) -> WireAnswer:
    mine = [view for scope, view in call.past.shown("runners") if scope == call.scope.lower()]
    if name := call.query.get("name"):
        mine = [view for view in mine if view["name"] == name]
    return listed(call, "runners", mine)


def groups(call: ApiCall) -> WireAnswer:
    """With `visible_to_repository` those that admit this repository, which is named without its owner."""
    found = call.state.groups_of(call.scope)
    if name := call.query.get("visible_to_repository"):
        full = f"{call.scope}/{name}".lower()
        found = [one for one in found if not one.repositories or full in map(str.lower, one.repositories)]
    return listed(call, "runner_groups", [shown_group(call, group) for group in found])


def group_repositories(call: ApiCall) -> WireAnswer:
    """The repositories that a group is open to; GitHub lists none of a group that is open to all."""
    groups = [one for one in call.state.groups_of(call.scope) if one.id == int(call.path["runner_group_id"])]
    if not groups:
        raise ApiRefusal(404, "Not Found")
    admitted = [call.state.repository(name) for name in groups[0].repositories]
    return listed(call, "repositories", [shown_repository(call.url, one) for one in admitted if one is not None])


def get(call: ApiCall) -> WireAnswer:
    return WireAnswer(200, shown_runner(call.state, _runner(call)))


def delete(call: ApiCall) -> WireAnswer:
    runner = _runner(call)
    if call.state.knows_busy(runner):
        # Even when it has been offline for minutes: GitHub believes in the job until its lease is over.
        raise ApiRefusal(422, f'Bad request - Runner "{runner.name}" is still running a job"')
    call.state.remove_runner(runner)
    return WireAnswer(204)


def registration_token(call: ApiCall) -> WireAnswer:
    return _ticket(call, "registration")


def removal_token(call: ApiCall) -> WireAnswer:
    return _ticket(call, "removal")


def _ticket(call: ApiCall, kind: str) -> WireAnswer:
    expires = (call.state.clock() + TICKETS_LAST).replace(microsecond=0)
    ticket = Ticket(f"A{secrets.token_hex(14).upper()}", kind, call.scope, expires)
    call.state.tickets[ticket.token] = ticket
    return WireAnswer(201, {"token": ticket.token, "expires_at": expires.isoformat()})


def jit_config(call: ApiCall) -> WireAnswer:
    """A registration for one job. It has the labels that were asked for, and no others."""
    wanted = call.body
    if is_taken(call.state, call.scope, wanted["name"]):
        raise ApiRefusal(409, f"Already exists - A runner with the name {wanted['name']} already exists.")
    if wanted["runner_group_id"] not in [group.id for group in call.state.groups_of(call.scope)]:
        raise ApiRefusal(404, "Not Found")
    if not 0 < len(wanted["name"]) <= 64:
        raise ApiRefusal(422, "Runner name must be between 1 and 64 characters.")
    group = wanted["runner_group_id"]
    runner = add(call.state, call.scope, wanted["name"], wanted["labels"], group=group, ephemeral=True)
    encoded = encoded_config(call.url, runner, wanted.get("work_folder", "_work"))
    return WireAnswer(201, {"runner": shown_runner(call.state, runner), "encoded_jit_config": encoded})


def encoded_config(url: str, runner: Runner, work: str) -> str:
    """What the stand-in for GitHub's runner starts from."""
    config = {"url": f"{url}/{runner.scope}", "id": runner.id, "secret": runner.secret, "name": runner.name}
    return base64.b64encode(json.dumps(config | {"work": work}).encode()).decode()


def labels(call: ApiCall) -> WireAnswer:
    return _labels(_runner(call))


def set_labels(call: ApiCall) -> WireAnswer:
    runner = _runner(call)
    runner.labels = tuple(call.body["labels"])
    call.state.changed()
    return _labels(runner)


def add_labels(call: ApiCall) -> WireAnswer:
    runner = _runner(call)
    runner.labels = (*runner.labels, *(label for label in call.body["labels"] if label not in runner.labels))
    call.state.changed()
    return _labels(runner)


def remove_labels(call: ApiCall) -> WireAnswer:
    runner = _runner(call)
    runner.labels = tuple(label for label in runner.labels if label in DEFAULT_LABELS)
    call.state.changed()
    return _labels(runner)


def _labels(runner: Runner) -> WireAnswer:
    shown: list[dict[str, Any]] = [shown_label(label) for label in runner.labels]
    return WireAnswer(200, {"total_count": len(shown), "labels": shown})


def _runner(call: ApiCall) -> Runner:
    runner = call.state.runners.get(int(call.path["runner_id"]))
    if runner is None or runner.scope.lower() != call.scope.lower():
        raise ApiRefusal(404, "Not Found")
    return runner
