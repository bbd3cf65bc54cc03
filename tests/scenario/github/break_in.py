"""A hostile job's story, from its first step to the run after it: on a real runner, beside `bullpen serve`.

acme/gadgets has a job on one instance. acme/widgets gets another, breaks out as far as it can, and is released;
two jobs of other runs ask for its label, and meanwhile a third one of acme/widgets is on an instance that needs no
service. Then a pull request of acme/widgets wants runners, and the next run does.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fakes.github.hub import FakeGithub, JobSpec, Run
from made_tokens import agents_secret, make_token
from scenario import processes
from scenario.github.workplace import SECRET, Workplace, a_workplace

LABEL = ("${{ github.run_id }}",)
LAST = JobSpec("last", needs=("build",))  # on a machine of GitHub's: while it is to come the run is not over
DIRECT = ("--set", "agent.serve-url=")
INTRUDER = Path(__file__).with_name("intruder.py")


@dataclass
class Evidence:
    """What the intruder came away with, and what became of the others."""

    loot: Path
    home: Path
    instance: str = ""
    neighbour: str = ""
    secrets: dict[str, bytes] = field(default_factory=dict)
    strangers: dict[str, Run] = field(default_factory=dict)
    machines: dict[str, list[str]] = field(default_factory=dict)
    survivors: list[str] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)  # what GitHub says to stolen credentials
    registered: list[str] = field(default_factory=list)
    victim: str = ""
    logs: str = ""

    def report(self, name: str) -> Any:
        return json.loads((self.loot / f"{name}.json").read_text(encoding="utf-8"))


class BreakIn:
    def __init__(self, place: Workplace) -> None:
        self.place, self.hub = place, place.hub
        self.loot = place.ground / "loot"
        self.loot.mkdir()
        self.loot.chmod(0o777)
        shutil.copyfile(INTRUDER, place.ground / INTRUDER.name)
        (place.ground / INTRUDER.name).chmod(0o644)

    def script(self, deed: str) -> str:
        """A step that waits for its cue: the plan names what exists only once runners do."""
        go, intruder = self.place.ground / f"go-{deed}", self.place.ground / INTRUDER.name
        return f"until [[ -e {go} ]]; do sleep 0.05; done; python3 -I -S {intruder} {deed}"

    def cue(self, deed: str) -> None:
        (self.place.ground / f"go-{deed}").touch()

    def plan(self, **more: Any) -> None:
        path = self.place.ground / "plan.json"
        path.write_text(json.dumps({"loot": str(self.loot), "serve": self.place.served.url, **more}))
        path.chmod(0o644)

    def provision(self, *runs: Run) -> list[list[str]]:
        """One runner for each, all at once, as a job of the run asks for it: by what GitHub says it is."""
        return [ids() for ids in [self._begun(run) for run in runs]]

    def _begun(self, run: Run) -> Callable[[], list[str]]:
        identity = self.hub.oidc_token(
            repository=run.repository.name, run_id=str(run.id), run_attempt=str(run.attempt), event_name=run.event
        )
        served = self.place.served
        _, given = served.ask("POST", "/v1/oidc/token", {"token": identity})
        bearer = {"Authorization": f"Bearer {given['token']}"}
        _, begun = served.ask("POST", f"/v1/runs/{run.id}/provision", {"count": 1}, bearer)
        assert "id" in begun, f"{begun}\n{self.place.told()}"
        ended: dict[str, Any] = {}

        def is_over() -> bool:
            ended.update(served.ask("GET", f"/v1/operations/{begun['id']}", headers=bearer)[1])
            return bool(ended["state"] != "running")

        def ids() -> list[str]:
            self.place.until(is_over, f"{run.id} has its runner")
            assert ended["state"] == "succeeded", f"{ended}\n{self.place.told()}"
            return [one["instanceId"] for one in ended["result"]["instances"]]

        return ids

    def ended(self, run: Run, key: str) -> None:
        self.place.until(lambda: run.job(key).status == "completed", f"{key} of {run.id} has ended")

    def over(self, run: Run, id: str) -> None:
        """Nothing of the run is left to do; the service gives its instance back, which is cleaned."""
        self.hub.hosted(run, "last")
        self.place.until(lambda: id in self.place.ids("attested = 1"), f"{id} is clean")


@dataclass(frozen=True)
class Intrusion:
    """The job has tried everything, and its run goes on."""

    story: BreakIn
    found: Evidence
    run: Run
    other: Run


@contextmanager
def break_in(hub: FakeGithub, keep: Path) -> Iterator[Intrusion]:
    """The first act; each promise is looked up in what it left, which is copied to `keep`."""
    hub.add_repository("acme/gadgets")
    # A lease as long as the test's patience: on a busy machine an agent may be silent for seconds, and is not lost.
    with a_workplace(hub, scope="acme", lease="180") as place:
        story = BreakIn(place)
        found = Evidence(keep, place.home)
        found.secrets["an operator's token"] = make_token(place.home).encode()
        place.bullpen("refresh", *DIRECT)  # so that there is something in the vault
        place.until(lambda: place.served.ask("GET", "/v1/status")[0] == 401, "tokens are asked for")
        other = hub.start_run("acme/gadgets", [JobSpec("build", LABEL, script=story.script("never")), LAST])
        jobs = [
            JobSpec("break_in", LABEL, script=story.script("break_in")),
            JobSpec("pause", needs=("break_in",)),
            JobSpec("feign", LABEL, needs=("pause",), script=story.script("feign")),
            JobSpec("last", needs=("feign",)),
        ]
        run = hub.start_run("acme/widgets", jobs)
        (found.neighbour,), found.machines["first"] = story.provision(other, run)
        (found.instance,) = found.machines["first"]
        jobs_run = [run.job("break_in"), other.job("build")]
        place.until(lambda: {job.status for job in jobs_run} == {"in_progress"}, "both jobs run")
        story.plan(**targets(place, found, run, other))
        found.secrets |= secrets(place)
        story.cue("break_in")
        story.ended(run, "break_in")
        found.logs = run.job("break_in").log
        assert run.job("break_in").conclusion == "success", found.logs
        shutil.copytree(story.loot, keep, dirs_exist_ok=True)
        yield Intrusion(story, found, run, other)


def aftermath(intrusion: Intrusion) -> Evidence:
    """The second act. It may end early where the job had its way: an agent that notices gives up its instance."""
    story, found, run, other = intrusion.story, intrusion.found, intrusion.run, intrusion.other
    hub = story.hub
    with turned_away(story, found, run, "acme/widgets", "acme/gadgets"):
        tamper(story, found, *names(hub, other))
    feign(story, run, found.instance)
    story.over(run, found.instance)
    found.survivors += living(story.loot)
    found.sessions |= {name: session(hub, story.loot / name) for name in ("credentials", "feigned")}

    pull = hub.start_run("acme/widgets", [JobSpec("build", LABEL, script="true"), LAST], event="pull_request")
    (found.machines["pull request"],) = story.provision(pull)
    later = hub.start_run("acme/widgets", [JobSpec("build", LABEL, script=story.script("look")), LAST])
    (found.machines["next"],) = story.provision(later)
    story.cue("look")
    story.ended(later, "build")
    with turned_away(story, found, later, "acme/widgets", when="next"):
        pass
    found.secrets |= secrets(story.place)
    shutil.copytree(story.loot, found.loot, dirs_exist_ok=True)
    return found


def feign(story: BreakIn, run: Run, id: str) -> None:
    """The runner seems to be forgotten by GitHub, and the agent registers again."""
    (before,) = names(story.hub, run)
    story.hub.hosted(run, "pause")
    story.cue("feign")
    story.ended(run, "feign")
    (log,) = (story.place.home / "instances").glob(f"{id}/agent.log")
    # Not under its job, as far as the agent knows: it would give up at once.
    story.place.until(lambda: "its job has ended" in log.read_text().rpartition("job feign")[2], "it notices the end")
    (story.loot / "strike").touch()
    story.place.until(lambda: names(story.hub, run) not in ([], [before]), "it is registered again")


def names(hub: FakeGithub, run: Run) -> list[str]:
    return [one.name for one in hub.runners() if one.labels == (str(run.id),)]


def tamper(story: BreakIn, found: Evidence, victim: str) -> None:
    """In direct mode the agent removes its registration itself, with a token: whose, and who lurks until then?"""
    place = story.place
    story.plan(victim=victim)
    run = story.hub.start_run("acme/widgets", [JobSpec("build", LABEL, script=story.script("tamper")), LAST])
    place.bullpen("provision", "--count", "1", "--run-id", str(run.id), "--repository", "acme/widgets", *DIRECT)
    (id,) = place.ids(f"run_id = '{run.id}'")
    story.cue("tamper")
    story.ended(run, "build")
    place.until(lambda: (story.loot / "lurked").exists(), "the spy is at work")
    story.over(run, id)
    found.survivors += [name for name in living(story.loot) if "lurking" in name]  # the others' run goes on
    found.sessions["tampered"] = session(story.hub, story.loot / "tampered")
    found.registered = [one.name for one in story.hub.runners()]
    found.victim = victim


def targets(place: Workplace, found: Evidence, run: Run, other: Run) -> dict[str, Any]:
    """What the intruder tries itself on: everything of the pool, which it could not even list."""
    agents = [one.pid for one in processes.of_home(place.home) if one.is_agent]
    paths = [place.ground, place.config, place.home, *sorted(place.home.rglob("*"))]
    own, foreign = found.instance, found.neighbour
    said = {"kind": "UD_CLEAN_OK", "runId": "", "round": "r", "seq": 99, "text": ""}
    asked = [
        *(
            ("agent", *call)
            for id in (own, foreign)
            for call in (
                ("GET", f"/v1/agents/{id}/record", None),
                ("PUT", f"/v1/agents/{id}/registration", {"runId": str(run.id), "round": round_of(place, id)}),
                ("POST", f"/v1/agents/{id}/signals", said),
                ("POST", "/v1/heartbeats", {"workerInstanceKey": f"{id}/x", "token": 0, "leaseSeconds": 60}),
                ("DELETE", f"/v1/agents/{id}/registration", None),
            )
        ),
        ("run", "GET", f"/v1/runs/{other.id}", None),
        ("run", "POST", f"/v1/runs/{other.id}/provision", {"count": 1}),
        ("run", "POST", f"/v1/runs/{other.id}/release", None),
        ("operator", "GET", "/v1/status", None),
        ("operator", "GET", "/v1/instances", None),
        ("operator", "GET", "/v1/events", None),
        ("operator", "POST", "/v1/jobs", {"runId": str(other.id), "name": "x", "command": ["true"]}),
        ("trust", "POST", f"/v1/runs/{run.id}/provision", {"count": 1, "trustDomain": "acme/gadgets"}),
        ("trust", "POST", f"/v1/runs/{run.id}/provision", {"count": 1, "repository": "acme/gadgets"}),
    ]
    return {
        "paths": [str(path) for path in paths],
        "pids": [place.served.process.pid, *agents],
        "instance": own,
        "asked": asked,
    }


def round_of(place: Workplace, id: str) -> str:
    ((found,),) = place.rows("SELECT round FROM instances WHERE id = ?", id)
    return str(found)


def secrets(place: Workplace) -> dict[str, bytes]:
    """By name, as they are now."""
    tickets = enumerate(place.hub._state.tickets.values())
    known = {f"{ticket.kind} token {number}": ticket.token for number, ticket in tickets}
    (line,) = [line for line in place.config.read_text().splitlines() if line.startswith("token")]
    known |= {"GitHub's token": line.split('"')[1], "the webhook's secret": SECRET}
    for path in place.home.glob("instances/*/agent.json"):
        if token := json.loads(path.read_text()).get("token"):
            known[f"the token of {path.parent.name}"] = token
    found = {name: value.encode() for name, value in known.items()}
    return found | {"the agents' secret": agents_secret(place.home)}


@contextmanager
def turned_away(story: BreakIn, found: Evidence, run: Run, *repositories: str, when: str = "first") -> Iterator[None]:
    """Other runs, of these repositories, ask for the label; that takes its time, in which something else may happen."""
    for repository in repositories:
        mark = story.loot / f"sneaked-{run.id}-{repository.partition('/')[2]}"
        stranger = story.hub.start_run(repository, [JobSpec("build", (str(run.id),), script=f"touch {mark}")])
        found.strangers[f"{repository}, {when}"] = stranger
    yield
    for repository in repositories:
        story.ended(found.strangers[f"{repository}, {when}"], "build")


def living(loot: Path) -> list[str]:
    """Which of those that were left behind still run."""
    left = [path.name for path in loot.glob("pid-*")]
    return [name for name in left if os.path.exists(f"/proc/{name.rpartition('-')[2]}")]


def session(hub: FakeGithub, credentials: Path) -> int:
    """What GitHub says to a runner with these credentials."""
    import httpx

    ours = json.loads((credentials / ".runner").read_text())
    secret = json.loads((credentials / ".credentials_rsaparams").read_text())["secret"]
    asked = {"id": ours["agentId"], "secret": secret, "version": "2.336.0"}
    return httpx.post(f"{hub.url}/_runner/session", json=asked).status_code
