"""What docs/security.md says that a job cannot do, tried by a job. Each number there is a test here, and no other.

Jobs run as another user than the pool, which only root can have them do. Without root nothing is tried, and the end of
the run says so; BULLPEN_REQUIRE_ENGINES=1 tries it by sudo, and fails without.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.github.fixtures import AgentStage, a_stage
from builders import claimed, open_provision
from bullpen.agent.account import account_of
from bullpen.agent.progress import Phase, SignalKind
from bullpen.agent.store.base import RunnerCredentials
from bullpen.host import scheduled_jobs, subordinate_ids
from bullpen.host.processes import end_tree
from engines.github.places import a_ci
from fakes.github.fixtures import SKIPPED, serving
from fakes.github.hub import FakeGithub
from scenario.github.break_in import Evidence, Intrusion, aftermath, break_in, session
from users import lent

pytestmark = pytest.mark.slow

OWN = r"(work|home|tmp)(/.*)?|runner/(\.runner.*|\.credentials.*|\.env|\.path|_diag(/.*)?|run-helper\.sh)"
"""What belongs to the jobs of an instance: its user is theirs alone."""
SHOWN = r"(?!runner/\.credentials_rsaparams)(runner|hooks)(/.*)?"
"""What is open to all users: programs, and what GitHub's runner says of itself; not what it proves itself with."""


@pytest.fixture(scope="module", autouse=True)
def as_root() -> None:
    if os.geteuid() == 0:
        return
    if os.environ.get("BULLPEN_REQUIRE_ENGINES") != "1":
        pytest.skip(f"{SKIPPED}: what a job cannot do was not tried, for only root can; run {Path(__file__).name} so")
    command = ["sudo", "-n", "-E", sys.executable, "-m", "pytest", "-q", __file__]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, f"BULLPEN_REQUIRE_ENGINES=1, and this cannot be tried as root: {ran.stdout}{ran.stderr}"
    pytest.skip("tried as root, by sudo")


@pytest.fixture(scope="module")
def scene(as_root: None, github_described: None) -> Iterator[ExitStack]:
    with ExitStack() as scene:
        yield scene


@pytest.fixture(scope="module")
def intrusion(scene: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Intrusion:
    hub = scene.enter_context(serving())
    return scene.enter_context(break_in(hub, tmp_path_factory.mktemp("loot")))


@pytest.fixture(scope="module")
def tried(intrusion: Intrusion) -> Evidence:
    """What the job could do while it ran. Judged apart from the rest: a pool that notices it may not go on."""
    return intrusion.found


@pytest.fixture(scope="module")
def found(intrusion: Intrusion, scene: ExitStack) -> Evidence:
    """What came of it. Then the scene is cleared: it has users and processes that others wait for."""
    with scene:
        return aftermath(intrusion)


def beyond(found: Evidence, paths: list[str], own: str, of_others: str) -> list[str]:
    """Those that are neither what a job may reach of its own instance, nor of others."""
    below = f"{re.escape(str(found.home))}/instances/"
    allowed = re.compile(f"{below}({found.instance}/({own})|[^/]+/({of_others}))")
    return [path for path in paths if not allowed.fullmatch(path)]


def answers(found: Evidence, *kinds: str) -> set[int]:
    return {status for kind, _, _, status, _ in found.report("spoken") if kind in kinds}


def test_c1_a_job_finds_no_secret_of_the_pool(tried: Evidence) -> None:
    bag = (tried.loot / "harvest").read_bytes()
    assert json.loads((tried.loot / "credentials" / ".credentials_rsaparams").read_text())["secret"].encode() in bag
    assert len(tried.secrets) > 8
    assert [name for name, value in tried.secrets.items() if value in bag] == []


def test_c2_a_job_reads_no_file_of_the_pool(tried: Evidence) -> None:
    opened = tried.report("opened")
    assert opened
    # GitHub's runner lists every directory above its own, so names are to be seen on the way.
    way = [str(tried.home.parent), str(tried.home), str(tried.home / "instances")]
    way += [str(tried.home / "instances" / id) for id in (tried.instance, tried.neighbour)]
    assert beyond(tried, [path for path in opened if path not in way], rf"{OWN}|{SHOWN}", SHOWN) == []


def test_c3_a_job_changes_no_file_of_the_pool(tried: Evidence) -> None:
    changed = tried.report("changed")
    assert changed
    assert beyond(tried, changed, rf"{OWN}|runner|hooks/ask", "nothing") == []


def test_c4_a_job_has_no_power_over_the_pool_s_processes(tried: Evidence) -> None:
    assert tried.report("overpowered") == []


def test_c5_a_job_does_not_speak_as_an_agent(tried: Evidence) -> None:
    assert answers(tried, "agent") == {401, 403}


def test_c6_a_job_speaks_for_no_other_run_and_no_operator(tried: Evidence) -> None:
    assert tried.report("own") == 200
    assert answers(tried, "run", "operator") == {401, 403}


def test_c7_a_job_does_not_choose_its_trust_domain(tried: Evidence) -> None:
    assert answers(tried, "trust") == {401, 403}


def test_c8_a_job_of_another_run_is_not_let_in(found: Evidence) -> None:
    assert all("This runner serves label" in run.job("build").log for run in found.strangers.values())
    assert [run.conclusion for run in found.strangers.values()] == ["failure"] * 3
    assert list(found.loot.glob("sneaked-*-*")) == []


def test_c9_the_next_run_finds_no_file_of_the_last(found: Evidence) -> None:
    assert found.machines["next"] == [found.instance]
    seen = found.report("seen")
    assert any(path.endswith("/run.sh") for path in seen)
    assert [path for path in seen if re.search(r"left-by-an-intruder|\.bash", path)] == []
    assert [one for one in found.report("attributes") if re.search("left-by-an-intruder|posix_acl", one)] == []


def test_c10_no_process_of_a_job_outlives_its_release(
    found: Evidence, github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {path.name.split("-")[1] for path in found.loot.glob("pid-*")} == {"plain", "hidden", "child", "lurking"}
    assert found.survivors == []
    # And none runs before the job that it could take over, to be spared in its place.
    monkeypatch.setattr("bullpen.agent.job_user.LEFT_WITHIN", 0.2)
    with lent(1) as (user,):
        uid = account_of(user).user
        daemon = f"setsid --fork setpriv --reuid={uid} sleep 600 </dev/null >/dev/null 2>&1; sleep 0.5"
        with a_stage(github, runner_user=user, pre_runner_script=daemon) as stage:
            stage.until(lambda: stage.agent._progress.boot.phase is Phase.FAILED)
            assert f"(sleep), which runs as {user}" in stage.agent._progress.boot.text


def test_c11_a_job_does_not_switch_off_the_hooks_of_the_next_run(found: Evidence) -> None:
    assert found.report("hook").endswith(f"/{found.instance}/hooks/started.sh")
    later = [run for name, run in found.strangers.items() if "next" in name]
    assert [run.conclusion for run in later] == ["failure"]


def test_c12_a_pull_request_does_not_get_a_machine_that_others_have_used(found: Evidence) -> None:
    assert found.machines["pull request"] != found.machines["first"] == found.machines["next"]


def test_c13_a_runner_s_credentials_end_with_its_registration(found: Evidence) -> None:
    assert found.sessions["credentials"] == found.sessions["feigned"] == 404


def test_c14_without_a_service_a_job_gets_no_hand_on_the_removal_of_runners(found: Evidence) -> None:
    assert found.sessions["tampered"] == 404
    assert found.victim in found.registered
    watched = (found.loot / "lurked").read_bytes()
    assert [name for name, value in found.secrets.items() if "removal" in name and value in watched] == []


def test_c15_what_a_job_sees_of_a_registration_for_one_job_is_used_up(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lent(1) as (user,), a_stage(github, runner_user=user) as stage:
        loot = stage.ground / "loot"
        loot.mkdir()
        loot.chmod(0o777)
        variable, kept = "ACTIONS_RUNNER_INPUT_JITCONFIG", f"{stage.config.directory}/runner/.[cr]*"
        environments = f"cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^{variable}= >{loot}/seen || true"
        run = stage.starts(f"{environments}; cp {kept} {loot}")
        passes = stage.store.passes

        def register(*_: object) -> RunnerCredentials:
            passes.append(made_for_one_job(github, str(run.id)))
            return passes[-1]

        monkeypatch.setattr(stage.store, "register", register)
        stage.serves(str(run.id))
        stage.until(lambda: run.state == "completed")
        assert run.conclusion == "success", run.job("build").log
        assert passes[0].jit in (loot / "seen").read_text()
        assert session(github, loot) == 404


def made_for_one_job(github: FakeGithub, label: str) -> RunnerCredentials:
    """As `bullpen serve` has it made, by the setting `github.registration = "jit"`."""

    async def made() -> RunnerCredentials:
        async with a_ci(github, registration="jit") as (ci, ports):
            await ports.records.apply(open_provision())
            for change in (walk := claimed(run_id=label)):
                await ports.records.apply(change)
            given = await ci.register("i-1", label, walk[-1].after.round)
        assert given is not None
        return RunnerCredentials(given.runner, given.label, given.url, token=given.token, jit=given.jit)

    return asyncio.run(made())


def test_c16_on_a_machine_of_its_own_nothing_of_the_user_s_is_left(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.job_user.shutil.which", lambda _: None)  # a cleaning would empty this docker
    with lent(1) as (user,), a_stage(github, runner_user=user, shares_machine=False) as stage:
        shared = stage.ground / "shared"  # in the place of /tmp, which may be vast
        shared.mkdir()
        shared.chmod(0o1777)
        (had := shared / "had-at-boot").mkdir()
        os.chown(had, account_of(user).user, account_of(user).group)
        (stage.ground / "subuid").write_text(f"{user}:3999000000:65536\n")
        monkeypatch.setattr(subordinate_ids, "FILE", str(stage.ground / "subuid"))
        places = (str(shared), "/var/tmp", "/dev/shm")
        monkeypatch.setattr("bullpen.agent.job_user.PLACES", places)
        left = [Path(place, f"left-{stage.config.instance_id}") for place in (*places, str(had))]
        hidden = f"setsid --fork env -i sh -c 'cd /; echo $$ >{left[0]}/pid; exec sleep 600' </dev/null >/dev/null 2>&1"
        run = stage.starts(f"mkdir {' '.join(map(str, left))}; {hidden}; until [[ -s {left[0]}/pid ]]; do :; done")
        try:
            stage.serves(str(run.id))
            stage.until(lambda: run.state == "completed")
            assert run.conclusion == "success", run.job("build").log
            pid = int((left[0] / "pid").read_text())
            assert os.path.exists(f"/proc/{pid}")
            for path in left[1:3]:
                os.chown(path, 3_999_000_007, 3_999_000_007)  # as a rootless container would have made it
            stage.releases()
            stage.reported(SignalKind.CLEAN_OK)
            assert [path for path in left if path.exists()] == []
            assert not os.path.exists(f"/proc/{pid}/exe")
        finally:
            end_tree(None, "no mark", patience=5.0, user=account_of(user).user)


def test_c17_nothing_is_left_that_a_daemon_would_do_for_the_user_later(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job plays the daemons' programs, such as `crontab`, which have the right to write there, and this machine
    perhaps not: it is let into directories that stand in the place of theirs."""
    with lent(1) as (user,), a_stage(github, runner_user=user) as stage:
        places = tuple(f"{stage.ground}{spool}" for spool in scheduled_jobs.SPOOLS)
        monkeypatch.setattr(scheduled_jobs, "SPOOLS", places)
        for spool in places:
            os.makedirs(spool, exist_ok=True)
            os.chmod(spool, 0o1777)
        left = [Path(spool, name) for spool in places for name in (user, "a0000101c3f1e4")]
        run = stage.starts(f"touch {' '.join(map(str, left))}")
        stage.serves(str(run.id))
        stage.until(lambda: run.state == "completed")
        assert run.conclusion == "success", run.job("build").log
        assert all(path.exists() for path in left)
        stage.releases()
        stage.reported(SignalKind.CLEAN_OK)
        assert [path for path in left if path.exists()] == []


@dataclass(frozen=True)
class Accomplice:
    """A process of another instance's job."""

    stage: AgentStage
    pid: int
    script: str
    socket: Path
    report: Path

    def is_passed(self, *paths: Path) -> str:
        """A step that passes these on."""
        return f"python3 -I -S {self.script} pass {self.socket} {' '.join(map(str, paths))}"

    def has(self) -> bool:
        return Path(f"{self.report}.has").exists()

    def has_ended(self) -> bool:
        return not os.path.exists(f"/proc/{self.pid}/exe")

    def uses_it(self, run: str) -> list[str]:
        go, written = Path(f"{self.report}.go"), Path(f"{self.report}.go.part")
        written.write_text(run)
        written.rename(go)  # whole at once: it may look at any moment
        self.stage.until(lambda: self.report.exists() or self.has_ended())
        assert not self.has_ended(), "the accomplice has ended; its last words are on stderr"
        for path in (go, Path(f"{self.report}.has")):
            path.unlink()
        found: list[str] = json.loads(self.report.read_text())
        self.report.unlink()
        return found


@contextmanager
def an_accomplice(stage: AgentStage, user: str) -> Iterator[Accomplice]:
    script = shutil.copy(Path(__file__).with_name("accomplice.py"), stage.ground)
    loot = stage.ground / "loot"
    loot.mkdir()
    loot.chmod(0o777)
    account = account_of(user)
    command = [sys.executable, "-I", "-S", script, "wait", loot / "socket", loot / "report"]
    command += [str(account.user), str(account.group)]
    with subprocess.Popen(["setsid", "--fork", *command], stdout=subprocess.PIPE, cwd="/", text=True) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        try:
            yield Accomplice(stage, pid, str(script), loot / "socket", loot / "report")
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_c18_what_a_job_passes_to_a_job_of_another_instance_does_not_lead_to_the_next_run(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lent(2) as (user, other), a_stage(github, runner_user=user) as stage, an_accomplice(stage, other) as friend:
        places, pipe = stage.config.places, stage.config.directory / "hooks" / "ask"
        runner = stage.config.directory / "runner"
        run = stage.starts(friend.is_passed(places["work"], places["home"], pipe, runner, pipe.parent))
        with monkeypatch.context() as unseen:  # as if what was passed had moved while it was looked for
            unseen.setattr("bullpen.agent.cleaning.descriptors.Holders.differences", lambda *_: iter(()))
            stage.serves(str(run.id))
            stage.until(lambda: run.state == "completed" and friend.has())
            assert run.conclusion == "success", run.job("build").log
            stage.releases()
            stage.reported(SignalKind.CLEAN_OK)
        later = stage.starts(friend.is_passed(places["work"]))
        stage.claimed(str(later.id), "r3")
        stage.reported(SignalKind.REG_OK)
        for place in ("work", "home"):
            (places[place] / "of-the-next-run").touch()
        *used, beside_the_runner, beside_the_pipe = friend.uses_it(str(later.id))
        assert used == ["sees ", "sees ", "BrokenPipeError"]
        assert ".runner" in beside_the_runner  # names, but nothing that the next run has there
        assert "*" not in beside_the_runner + beside_the_pipe
        stage.commits()
        stage.until(lambda: later.state == "completed" and friend.has())
        assert later.conclusion == "success", later.job("build").log
        stage.releases("r4")
        stage.until(
            lambda: stage.store.reports[-1][1] == "r4" and stage.store.reports[-1][0] is not SignalKind.REMOVE_REG_OK
        )
        kind, _, text = stage.store.reports[-1]
        assert kind is SignalKind.CLEAN_FAILED
        assert f"process {friend.pid} (python" in text
