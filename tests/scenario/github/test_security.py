"""What docs/security.md says that a job cannot do, tried by a job. Each number there is a test here, and no other.

Jobs run as another user than the pool, which only root can have them do. Where we are not root nothing is tried, and
the end of the run says so; BULLPEN_REQUIRE_ENGINES=1 tries it by sudo, and fails without.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agent.actions_stage import a_stage
from bullpen.agent.account import account_of
from bullpen.agent.progress import Kind
from bullpen.engines.processes import end_tree
from github.hub import FakeGithub
from github.stage import SKIPPED, serving
from scenario.github.break_in import Evidence, break_in
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
def found(as_root: None, github_described: None, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    with serving() as hub:
        return break_in(hub, tmp_path_factory.mktemp("loot"))


def beyond(found: Evidence, paths: list[str], own: str, of_others: str) -> list[str]:
    """Those that are neither what a job may reach of its own instance, nor of others."""
    below = f"{re.escape(str(found.home))}/instances/"
    allowed = re.compile(f"{below}({found.instance}/({own})|[^/]+/({of_others}))")
    return [path for path in paths if not allowed.fullmatch(path)]


def answers(found: Evidence, *kinds: str) -> set[int]:
    return {status for kind, _, _, status, _ in found.report("spoken") if kind in kinds}


def test_c1_a_job_finds_no_secret_of_the_pool(found: Evidence) -> None:
    bag = (found.loot / "harvest").read_bytes()
    assert json.loads((found.loot / "credentials" / ".credentials_rsaparams").read_text())["secret"].encode() in bag
    assert len(found.secrets) > 8
    assert [name for name, value in found.secrets.items() if value in bag] == []


def test_c2_a_job_reads_no_file_of_the_pool(found: Evidence) -> None:
    opened = found.report("opened")
    assert opened
    # GitHub's runner lists every directory above its own, so names are to be seen on the way.
    way = [str(found.home.parent), str(found.home), str(found.home / "instances")]
    way += [str(found.home / "instances" / id) for id in (found.instance, found.neighbour)]
    assert beyond(found, [path for path in opened if path not in way], rf"{OWN}|{SHOWN}", SHOWN) == []


def test_c3_a_job_changes_no_file_of_the_pool(found: Evidence) -> None:
    changed = found.report("changed")
    assert changed
    assert beyond(found, changed, rf"{OWN}|runner|hooks/ask", "nothing") == []


def test_c4_a_job_has_no_power_over_the_pool_s_processes(found: Evidence) -> None:
    assert found.report("overpowered") == []


def test_c5_a_job_does_not_speak_as_an_agent(found: Evidence) -> None:
    assert answers(found, "agent") == {401, 403}


def test_c6_a_job_speaks_for_no_other_run_and_no_operator(found: Evidence) -> None:
    assert found.report("own") == 200
    assert answers(found, "run", "operator") == {401, 403}


def test_c7_a_job_does_not_choose_its_trust_domain(found: Evidence) -> None:
    assert answers(found, "trust") == {401, 403}


def test_c8_a_job_of_another_run_is_not_let_in(found: Evidence) -> None:
    assert all("This runner serves label" in run.job("build").log for run in found.strangers.values())
    assert [run.conclusion for run in found.strangers.values()] == ["failure"] * 3
    assert list(found.loot.glob("sneaked-*-*")) == []


def test_c9_the_next_run_finds_no_file_of_the_last(found: Evidence) -> None:
    assert found.machines["next"] == [found.instance]
    seen = found.report("seen")
    assert any(path.endswith("/run.sh") for path in seen)
    assert [path for path in seen if re.search(r"left-by-an-intruder|\.bash", path)] == []


def test_c10_no_process_of_a_job_outlives_its_release(found: Evidence) -> None:
    assert {path.name.split("-")[1] for path in found.loot.glob("pid-*")} == {"plain", "hidden", "child", "lurking"}
    assert found.survivors == []


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


def test_c15_what_a_job_sees_of_a_registration_for_one_job_is_used_up(github: FakeGithub) -> None:
    with a_stage(github, jit=True) as stage:
        loot = stage.ground / "loot"
        loot.touch()
        loot.chmod(0o666)
        name = "ACTIONS_RUNNER_INPUT_JITCONFIG"
        run = stage.starts(f"cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^{name}= >{loot} || true")
        stage.serves(str(run.id))
        stage.until(lambda: run.state == "completed")
        (given, *_) = stage.store.passes
        assert f"{name}={given.jit}" in loot.read_text().splitlines()
        known = json.loads(base64.b64decode(given.jit))
        asked = {"id": known["id"], "secret": known["secret"], "version": "2.336.0"}
        assert httpx.post(f"{github.url}/_runner/session", json=asked).status_code == 404


def test_c16_on_a_machine_of_its_own_nothing_of_the_user_s_is_left(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.machine.shutil.which", lambda _: None)  # a cleaning would empty our docker
    with lent(1) as (user,), a_stage(github, runner_user=user, shares_machine=False) as stage:
        shared = stage.ground / "shared"  # in the place of /tmp, which may be vast
        shared.mkdir()
        shared.chmod(0o1777)
        places = (str(shared), "/var/tmp", "/dev/shm")
        monkeypatch.setattr("bullpen.agent.machine.PLACES", places)
        left = [Path(place, f"left-{stage.config.instance_id}") for place in places]
        hidden = f"setsid --fork env -i sh -c 'cd /; echo $$ >{left[0]}/pid; exec sleep 600' </dev/null >/dev/null 2>&1"
        run = stage.starts(f"mkdir {' '.join(map(str, left))}; {hidden}; until [[ -s {left[0]}/pid ]]; do :; done")
        try:
            stage.serves(str(run.id))
            stage.until(lambda: run.state == "completed")
            assert run.conclusion == "success", run.job("build").log
            pid = int((left[0] / "pid").read_text())
            assert os.path.exists(f"/proc/{pid}")
            stage.releases()
            stage.reported(Kind.CLEAN_OK)
            assert [path for path in left if path.exists()] == []
            assert not os.path.exists(f"/proc/{pid}/exe")
        finally:
            end_tree(None, "no mark", patience=5.0, user=account_of(user).user)
