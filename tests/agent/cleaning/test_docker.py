"""Docker is brought back to what it held at boot, or the instance is dirty. By a stub: the tests need no docker."""

from __future__ import annotations

import os
import select
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cleaning.test_clean import verdict_of
from bullpen.agent.cleaning.baseline import take_baseline
from bullpen.agent.cleaning.clean import Dirty, VerifiedClean, clean
from bullpen.agent.cleaning.docker import AT_ONCE, Docker
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import Turn
from bullpen.host.processes import identify

KINDS = ("containers", "images", "volumes", "networks")
NOTHING_KEPT = KeepList()


class Stub:
    """A docker command, and what it holds."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.program = folder / "docker"
        for kind in KINDS:
            (self.state / kind).mkdir(parents=True)
        shutil.copyfile(Path(__file__).parent / "stub_docker.sh", self.program)
        self.program.chmod(0o755)

    def hold(self, kind: str, *names: str) -> None:
        for name in names:
            (self.state / kind / name).touch()

    def tag(self, id: str, name: str) -> None:
        (self.state / "images" / name.replace("/", "_")).write_text(f"sha256:{id} {name}\n")

    def held(self, kind: str) -> list[str]:
        return sorted(entry.name for entry in (self.state / kind).iterdir())

    def trouble(self, how: str, subcommand: str) -> None:
        (self.state / how).write_text(f"{subcommand}\n")

    def calls(self) -> list[str]:
        return (self.state / "calls").read_text().splitlines()


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    return Stub(tmp_path)


def docker_of(stub: Stub, patience: float = 20.0) -> Docker:
    """With its baseline taken."""
    docker = Docker(str(stub.program), patience)
    finish(docker, docker.take_baseline())
    return docker


def finish(docker: Docker, work: Iterator[object]) -> list[object]:
    """Do all of the work, and wait when it waits."""
    done = []
    for turn in work:
        if turn is Turn.WAITING:
            await_child(docker)
        else:
            done.append(turn)
    return done


def await_child(docker: Docker) -> None:
    assert docker.child is not None
    handle = os.pidfd_open(docker.child)
    select.select([handle], [], [], 0.05)
    os.close(handle)


def cleaned(docker: Docker, keep: KeepList = NOTHING_KEPT) -> list[object]:
    """The differences that a cleaning leaves."""
    finish(docker, docker.sweep(keep, {}))
    return finish(docker, docker.differences(keep))


def test_what_a_job_left_goes_and_what_was_there_at_boot_stays(stub: Stub) -> None:
    for kind in ("containers", "volumes", "networks"):
        stub.hold(kind, "old")
    stub.tag("aa", "registry/cache:1")
    docker = docker_of(stub)
    for kind in ("containers", "volumes"):
        stub.hold(kind, "new", "newer")
    stub.tag("bb", "job:1")
    stub.tag("cc", "<none>:<none>")
    assert cleaned(docker) == []
    assert [stub.held(kind) for kind in KINDS] == [["old"], ["registry_cache:1"], ["old"], ["old"]]


def test_a_network_goes_after_the_containers_in_it(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.hold("containers", "new")
    stub.hold("networks", "new")
    assert cleaned(docker) == []


def test_the_build_cache_goes(stub: Stub) -> None:
    docker = docker_of(stub)
    (stub.state / "cache").touch()
    assert cleaned(docker) == []
    assert not (stub.state / "cache").exists()


def test_a_name_that_a_job_moved_to_an_image_of_the_baseline_is_taken_off_it(stub: Stub) -> None:
    stub.tag("aa", "base:1")
    docker = docker_of(stub)
    stub.tag("aa", "evil:1")
    assert cleaned(docker) == []
    assert stub.held("images") == ["base:1"]


def test_a_name_of_the_baseline_that_leads_to_another_image_makes_the_instance_dirty(stub: Stub) -> None:
    stub.tag("aa", "base:1")
    docker = docker_of(stub)
    stub.tag("bb", "base:1")
    assert cleaned(docker) == ["docker image sha256:aa base:1 is missing"]


def test_an_image_may_be_kept_by_its_name(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.tag("aa", "ghcr.io/us/tool:7")
    stub.tag("bb", "ghcr.io/us/other:7")
    kept = KeepList.of(["images/ghcr.io/us/tool:*"])
    assert cleaned(docker, kept) == []
    assert stub.held("images") == ["ghcr.io_us_tool:7"]
    assert cleaned(docker) == []
    assert stub.held("images") == []


@pytest.mark.parametrize("kind", ["containers", "volumes", "networks"])
def test_what_the_baseline_had_and_is_gone_is_dirt(stub: Stub, kind: str) -> None:
    stub.hold(kind, "old")
    docker = docker_of(stub)
    (stub.state / kind / "old").unlink()
    assert cleaned(docker) == [f"docker {kind[:-1]} old is missing"]


def test_what_resists_is_named_with_what_docker_says(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.hold("volumes", "stuck")
    stub.trouble("resists", "volume rm")
    troubles: dict[str, str] = {}
    finish(docker, docker.sweep(NOTHING_KEPT, troubles))
    assert "stuck is in use" in troubles["docker volumes"]
    assert finish(docker, docker.differences(NOTHING_KEPT)) == ["docker volume stuck was left behind"]


@pytest.mark.parametrize("subcommand", ["ps", "images", "volume ls", "network ls"])
def test_a_docker_that_fails_after_boot_makes_the_instance_dirty(stub: Stub, subcommand: str) -> None:
    docker = docker_of(stub)
    stub.trouble("fails", subcommand)
    (reason,) = cleaned(docker)
    assert "Cannot connect to the Docker daemon" in str(reason)


def test_a_build_cache_that_resists_makes_the_instance_dirty(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.trouble("fails", "builder prune")
    (reason,) = cleaned(docker)
    assert "build cache" in str(reason)
    (stub.state / "fails").unlink()
    assert cleaned(docker) == []


def test_a_docker_that_never_answers_has_nothing_to_clean(stub: Stub) -> None:
    stub.trouble("fails", "ps")
    docker = docker_of(stub)
    assert cleaned(docker) == []


def test_a_docker_that_answers_only_after_boot_held_nothing_at_boot(stub: Stub) -> None:
    stub.trouble("fails", "ps")
    docker = docker_of(stub)
    (stub.state / "fails").unlink()
    stub.hold("containers", "new")
    assert cleaned(docker) == []
    assert stub.held("containers") == []


def test_a_command_that_does_not_end_is_ended_and_the_instance_is_dirty(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.trouble("sleeps", "ps")
    docker._patience = 0.3
    (reason,) = cleaned(docker)
    assert "did not end within 0.3 s" in str(reason)
    assert docker.child is None


def test_work_that_is_given_up_leaves_no_command_running(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.trouble("sleeps", "ps")
    work = docker.sweep(NOTHING_KEPT, {})
    next(work)
    child = docker.child
    assert child is not None
    assert identify(child) is not None
    work.close()  # type: ignore[attr-defined]
    assert identify(child) is None


@pytest.mark.slow
def test_no_command_line_grows_without_end(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.hold("volumes", *(f"v{n}" for n in range(AT_ONCE + 1)))
    assert cleaned(docker) == []
    assert len([call for call in stub.calls() if call.startswith("volume rm")]) == 2


def test_a_docker_that_vanishes_makes_the_instance_dirty(stub: Stub) -> None:
    docker = docker_of(stub)
    stub.program.unlink()
    (reason,) = cleaned(docker)
    assert "cannot be started" in str(reason)


def test_a_cleaning_waits_for_docker_without_blocking_and_returns_its_verdict(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    baseline = take_baseline({"work": tmp_path / "work"}, f"BULLPEN_INSTANCE=i-{time.monotonic_ns()}")
    docker = docker_of(stub)
    stub.hold("containers", "new")
    seen = []

    def waits_if_it_must(turn: Turn | None) -> None:
        seen.append(turn)
        if turn is Turn.WAITING:
            await_child(docker)

    assert isinstance(verdict_of(clean(baseline, NOTHING_KEPT, [docker]), waits_if_it_must), VerifiedClean)
    assert Turn.WAITING in seen
    stub.trouble("fails", "network ls")
    verdict = verdict_of(clean(baseline, NOTHING_KEPT, [docker]))
    assert isinstance(verdict, Dirty)
