"""Jobs run as a user of their own, and everything of that user's is cleaned: on a machine of Bullpen alone, and, but
for docker, on one that we share."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cleaning.test_docker import Stub
from agent.cleaning.test_sysv_ipc import made_by
from agent.test_tasks import NoLog, a_progress, an_order, booted, checked
from bullpen.agent.account import Account, account_of
from bullpen.agent.cleaning.crontabs import UserCrontabs
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.shared_dirs import SharedPlaces
from bullpen.agent.cleaning.sysv_ipc import SystemV
from bullpen.agent.config import Config
from bullpen.agent.progress import AgentProgress, InstanceRecord, InstanceState, Phase, RoundAttempt
from bullpen.agent.store.base import Sink
from bullpen.agent.tasks import Tasks
from bullpen.host import scheduled_jobs
from bullpen.host.processes import end_tree, identify, mark_of
from users import lent

IDLE = InstanceRecord(InstanceState.IDLE, "", "r2", 0.0)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user")]


@pytest.fixture
def user() -> Iterator[str]:
    with lent(1) as (name,):
        yield name


@pytest.fixture
def docker() -> Iterator[None]:
    """None, whatever this machine has: a cleaning would empty it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bullpen.agent.job_user.shutil.which", lambda _: None)
        yield


@pytest.fixture
def ground() -> Iterator[Path]:
    """A directory that every user can read, unlike pytest's own."""
    ground = Path(tempfile.mkdtemp())
    ground.chmod(0o755)
    yield ground
    shutil.rmtree(ground)


@pytest.fixture
def crontab(ground: Path, user: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where cron would look for one of the user's; there is none yet."""
    (ground / "crontabs").mkdir()
    monkeypatch.setattr(scheduled_jobs, "SPOOLS", (str(ground / "crontabs"),))
    return ground / "crontabs" / user


@pytest.fixture
def config(ground: Path, docker: None, user: str, crontab: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    shared = ground / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("bullpen.agent.job_user.PLACES", (str(shared),))
    monkeypatch.setattr("bullpen.agent.job_user.LOGINS", str(ground / "logins"))
    directory = ground / "instance"
    for name in ("work", "home", "tmp"):
        (directory / name).mkdir(mode=0o700, parents=True)
    name = f"i-{time.monotonic_ns():016x}"
    yield Config(name, ground, directory, 5.0, 60.0, 60.0, "", 30.0, (), runner_user=user)
    end_tree(None, mark_of(name), patience=10.0, user=account_of(user).user)


class Traces:
    """What a process leaves of the user's that is neither a process nor a file in places of all users."""

    def __init__(self, account: Account, logins: Path) -> None:
        self._account = account
        self._login = logins / str(account.user)
        self._login.mkdir(mode=0o700, parents=True)
        os.chown(self._login, account.user, account.group)

    def leave(self) -> None:
        made_by(self._account.user, "queue")
        (self._login / "file").touch()
        os.chown(self._login / "file", self._account.user, self._account.group)

    def found(self) -> list[object]:
        return [*self._kept.differences(KeepList()), *(path.name for path in self._login.iterdir())]

    def remove(self) -> None:
        for _ in self._kept.sweep(KeepList(), {}):
            pass

    @property
    def _kept(self) -> SystemV:
        return SystemV(self._account.user, empty=True)


@pytest.fixture
def traces(config: Config, ground: Path) -> Iterator[Traces]:
    traces = Traces(account_of(config.runner_user), ground / "logins")
    yield traces
    traces.remove()


class Output(NoLog):
    """What a job printed."""

    def __init__(self) -> None:
        self.said = b""

    def write(self, content: bytes) -> None:
        self.said += content


def after(config: Config, script: str) -> tuple[str, int | None, Tasks, AgentProgress]:
    """What a job printed, its exit code, and where it leaves the agent."""
    tasks, output = Tasks(config, print), Output()
    progress = booted(tasks)
    assert progress.boot.phase is Phase.DONE, progress.boot.text
    open_log: Callable[[], Sink] = lambda: output  # noqa: E731
    progress = tasks.job.begin(progress, an_order("sh", "-c", script), "run-1", open_log)
    progress = checked(
        tasks, progress, lambda progress: progress.job is not None and progress.job.exit_code is not None
    )
    progress = checked(tasks, progress, lambda _: not tasks.outputs())
    assert progress.job is not None
    return output.said.decode(), progress.job.exit_code, tasks, progress.job_settled()


def cleaned(tasks: Tasks, progress: AgentProgress) -> RoundAttempt:
    progress = tasks.cleaning.begin(progress, IDLE, keep=True)
    over = (Phase.DONE, Phase.FAILED)
    progress = checked(tasks, progress, lambda now: now.cleaning is not None and now.cleaning.phase in over)
    assert progress.cleaning is not None
    return progress.cleaning


def test_a_job_runs_as_the_user_in_places_of_its_own(config: Config) -> None:
    said, code, *_ = after(config, 'id -un; id -gn; echo "$USER $LOGNAME $HOME"; touch a "$HOME/b" "$TMPDIR/c"')
    user = pwd.getpwnam(config.runner_user)
    group = subprocess.run(["id", "-gn", user.pw_name], capture_output=True, text=True, check=True).stdout.strip()
    home = config.directory / "home"
    assert (said.split(), code) == ([user.pw_name, group, user.pw_name, user.pw_name, str(home)], 0)
    assert {entry.stat().st_uid for entry in (home, home / "b", config.directory / "work/a")} == {user.pw_uid}


def test_a_job_cannot_touch_the_files_of_the_agent(config: Config) -> None:
    (config.directory / "agent.json").touch(mode=0o600)
    _, code, *_ = after(config, "cat ../agent.json || touch ../planted")
    assert code not in (0, None)


def test_the_script_runs_as_the_agent_s_user_and_what_it_leaves_in_the_places_becomes_the_job_user_s(
    config: Config,
) -> None:
    (ours := config.home / "ours").touch()
    made = f'mkdir -p "$HOME/.tool/bin"; ln -s {ours} "$HOME/link"; echo > "$HOME/.tool/bin/x"; id -u > ../who'
    said, code, *_ = after(replace(config, pre_runner_script=made), 'rm "$HOME/.tool/bin/x"')
    assert code == 0, said
    assert (config.directory / "who").read_text() == "0\n"
    assert ours.stat().st_uid == 0


def test_what_a_job_leaves_is_cleaned_wherever_the_user_may_write(config: Config) -> None:
    shared = config.home / "shared"
    (shared / "of-another").mkdir(mode=0o777)
    (shared / "of-another").chmod(0o777)
    (shared / "of-root").touch()
    script = f"mkdir -p {shared}/a/b; touch {shared}/a/b/c {shared}/of-another/d x; chmod 0 {shared}/a"
    said, code, tasks, progress = after(config, script)
    assert code == 0, said
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.DONE, outcome.text
    assert sorted(entry.name for entry in shared.rglob("*")) == ["of-another", "of-root"]
    assert list((config.directory / "work").iterdir()) == []


@pytest.mark.parametrize("shares", [True, False])
def test_queues_and_files_of_logins_that_a_job_leaves_go(config: Config, traces: Traces, shares: bool) -> None:
    _, _, tasks, progress = after(replace(config, shares_machine=shares), "true")
    traces.leave()
    assert len(traces.found()) == 2
    outcome = cleaned(tasks, progress)
    assert (outcome.phase, outcome.text, traces.found()) == (Phase.DONE, "", [])


def test_queues_and_files_of_logins_that_an_earlier_instance_left_go_before_the_boot(
    config: Config, traces: Traces
) -> None:
    traces.leave()
    boot = booted(Tasks(replace(config, shares_machine=True), print)).boot
    assert (boot.phase, boot.text, traces.found()) == (Phase.DONE, "", [])


@pytest.mark.parametrize("shares", [True, False])
def test_timers_that_a_job_leaves_go_and_one_that_resists_makes_the_instance_dirty(
    config: Config, crontab: Path, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, tasks, progress = after(replace(config, shares_machine=shares), "true")
    crontab.touch()
    outcome = cleaned(tasks, progress)
    assert (outcome.phase, outcome.text, crontab.exists()) == (Phase.DONE, "", False)
    crontab.touch()
    monkeypatch.setattr(UserCrontabs, "stop", refusing(crontab))
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.FAILED
    assert f"{crontab} could not be cleaned: operation not permitted; {crontab} was left behind" in outcome.text


def refusing(path: Path) -> Callable[[UserCrontabs], None]:
    def refuse(_: UserCrontabs) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    return refuse


def test_on_a_shared_machine_only_what_is_the_user_s_goes(config: Config) -> None:
    shared = config.home / "shared"
    for name, mode in {"open": 0o777, "closed": 0o755, "closed/open": 0o777}.items():
        (shared / name).mkdir()
        (shared / name).chmod(mode)
    (shared / "open" / "of-root").touch()
    script = f"mkdir -p {shared}/a/b; touch {shared}/a/b/c {shared}/open/d {shared}/closed/open/e; chmod 0 {shared}/a"
    said, code, tasks, progress = after(replace(config, shares_machine=True), script)
    assert code == 0, said
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.DONE, outcome.text
    # What lies in directories of others that the user cannot write to is not looked through: there may be a lot.
    assert sorted(entry.name for entry in shared.rglob("*")) == ["closed", "e", "of-root", "open", "open"]


def test_on_a_shared_machine_nothing_is_taken_over_from_an_earlier_instance_of_the_user(
    config: Config, crontab: Path
) -> None:
    shared, account = config.home / "shared", account_of(config.runner_user)
    for path in (crontab, shared / "file"):
        path.touch()
    os.chown(shared / "file", account.user, -1)
    earlier = subprocess.Popen(["sleep", "600"], user=account.user, group=account.group, extra_groups=[])
    script = f"touch {shared}/of-the-script; chown {account.user} {shared}/of-the-script"
    _, _, tasks, progress = after(replace(config, shares_machine=True, pre_runner_script=script), "true")
    assert (crontab.exists(), earlier.wait(10)) == (False, -signal.SIGKILL)
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.DONE, outcome.text
    assert [entry.name for entry in shared.iterdir()] == ["of-the-script"]


def test_what_an_earlier_instance_left_and_resists_fails_the_boot(
    config: Config, crontab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = replace(config, shares_machine=True)
    with monkeypatch.context() as patch:
        patch.setattr(UserCrontabs, "stop", refusing(crontab))
        assert f"user {config.runner_user} left cannot be ended: " in booted(Tasks(shared, print)).boot.text
    monkeypatch.setattr(SharedPlaces, "differences", lambda *_: iter(["/tmp/x was left behind"]))
    progress = booted(Tasks(shared, print))
    assert progress.boot.phase is Phase.FAILED
    assert f"earlier jobs of user {config.runner_user}: /tmp/x was left behind; remove it" in progress.boot.text


def test_what_the_user_had_at_boot_stays(ground: Path, user: str) -> None:
    account = account_of(user)

    def leave(name: str) -> None:
        (ground / name).touch()
        os.chown(ground / name, account.user, -1)

    leave("had")
    places = SharedPlaces(account, [], (str(ground), "/no/such/place"))
    leave("new")
    assert f"{ground}/new was left behind" in places.differences(KeepList())
    for _ in places.sweep(KeepList(), {}):
        pass
    assert [entry.name for entry in ground.iterdir()] == ["had"]


def test_a_process_of_the_user_that_cut_every_tie_is_ended(config: Config) -> None:
    note = config.home / "shared" / "pid"
    # No mark and no parent here: this process is no subreaper, so the orphan goes to a process above it.
    stray = f"env -i setsid sh -c 'echo $$ > {note}.part; mv {note}.part {note}; exec sleep 600' >/dev/null 2>&1 &"
    said, code, tasks, progress = after(config, stray)
    assert code == 0, said
    progress = checked(tasks, progress, lambda _: note.exists())
    process = identify(int(note.read_text()))
    assert process is not None
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.DONE, outcome.text
    assert identify(process.pid) != process


def test_docker_is_cleaned_with_the_rest(config: Config, ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / "bin").mkdir()
    stub = Stub(ground / "bin")
    stub.hold("containers", "old")
    monkeypatch.setattr("bullpen.agent.job_user.shutil.which", lambda _: str(stub.program))
    _, _, tasks, progress = after(config, "true")
    stub.hold("containers", "new")
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.DONE, outcome.text
    assert stub.held("containers") == ["old"]
    stub.trouble("resists", "rm")
    stub.hold("containers", "stuck")
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.FAILED
    assert "docker container stuck was left behind" in outcome.text


def test_a_docker_that_is_stuck_at_boot_is_awaited_and_costs_no_boot(
    config: Config, ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ground / "bin").mkdir()
    stub = Stub(ground / "bin")
    stub.trouble("sleeps", "ps")
    monkeypatch.setattr("bullpen.agent.job_user.shutil.which", lambda _: str(stub.program))
    tasks = Tasks(config, print)
    progress = tasks.boot.begin(a_progress())
    assert progress.boot.phase is Phase.UNDER_WAY
    (child,) = tasks.awaited()
    os.kill(child, signal.SIGKILL)
    progress = checked(tasks, progress, lambda progress: progress.boot.phase is not Phase.UNDER_WAY)
    assert progress.boot.phase is Phase.DONE
    assert tasks.awaited() == []


def test_a_machine_that_bullpen_shares_keeps_its_docker(
    config: Config, ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ground / "bin").mkdir()
    stub = Stub(ground / "bin")
    monkeypatch.setenv("PATH", f"{ground / 'bin'}:{os.environ['PATH']}")
    _, _, tasks, progress = after(replace(config, runner_user=""), "true")
    stub.hold("containers", "of-another-user")
    assert cleaned(tasks, progress).phase is Phase.DONE
    assert stub.held("containers") == ["of-another-user"]


@pytest.mark.parametrize(("named", "why"), [("no-such-user", "does not exist"), ("root", "must not run as 'root'")])
def test_a_user_that_jobs_cannot_or_must_not_run_as_fails_the_boot(config: Config, named: str, why: str) -> None:
    progress = Tasks(replace(config, runner_user=named), print).boot.begin(a_progress())
    assert progress.boot.phase is Phase.FAILED
    assert why in progress.boot.text


@pytest.mark.parametrize("shares", [True, False])
def test_on_a_machine_that_we_share_the_places_of_the_next_run_are_other_directories(
    config: Config, shares: bool
) -> None:
    script = 'touch "$HOME/.boot"'
    _, _, tasks, progress = after(replace(config, shares_machine=shares, pre_runner_script=script), "touch file")
    held = [os.open(place, os.O_RDONLY) for place in config.places.values()]
    for _ in range(2):
        outcome = cleaned(tasks, progress)
        assert (outcome.phase, outcome.text) == (Phase.DONE, "")
    account = account_of(config.runner_user)
    for place, descriptor in zip(config.places.values(), held, strict=True):
        now, before = place.stat(), os.fstat(descriptor)
        assert (now.st_ino != before.st_ino) is shares
        assert (now.st_uid, now.st_gid, now.st_mode) == (account.user, account.group, before.st_mode)
        os.close(descriptor)
    assert (config.directory / "home" / ".boot").stat().st_uid == account.user
