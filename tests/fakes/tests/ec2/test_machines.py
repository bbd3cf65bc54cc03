"""Instances that are real: trees of processes which run their user data, and end with the cloud however it ends."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bullpen.host.processes import descendants, mark_of
from fakes.ec2.calling import a_fleet, a_template, client_of, ids_of
from fakes.ec2.control import Control
from fakes.ec2.leftovers import end_leftovers
from fakes.ec2.running import running

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]
PATIENCE = 120.0  # seconds; what is waited for takes a second or two
# A grandchild that its parent forgets, in a session of its own, and the machine's main process.
SCRIPT = """
env > "$BULLPEN_ROOT/seen"
setsid sleep 1000 &
touch "$BULLPEN_ROOT/up"
while [ ! -e "$BULLPEN_ROOT/shut-down" ]; do sleep 0.05; done
"""


def wait_for(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def runs(id: str) -> bool:
    return bool(descendants(None, mark_of(id)))


async def launch(cloud: Control, folder: Path, count: int = 1, market: str = "on-demand") -> list[str]:
    cloud.launch_for_real(folder, {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1"})
    async with client_of(cloud) as ec2:
        await a_template(ec2, SCRIPT)
        ids = ids_of(await ec2.create_fleet(**a_fleet(count, market)))
    wait_for(lambda: all((folder / id / "up").exists() for id in ids))
    return ids


async def test_user_data_runs_and_learns_what_it_needs_and_nothing_else(cloud: Control, tmp_path: Path) -> None:
    [id] = await launch(cloud, tmp_path)
    seen = dict(line.split("=", 1) for line in (tmp_path / id / "seen").read_text().splitlines())
    assert seen["BULLPEN_INSTANCE"] == id
    assert seen["BULLPEN_ROOT"] == str(tmp_path / id)
    assert seen["AWS_EC2_METADATA_SERVICE_ENDPOINT"] == f"{cloud.url}/imds/{id}/"
    assert seen["AWS_ENDPOINT_URL_DYNAMODB"] == "http://127.0.0.1:1"
    assert seen["AWS_ENDPOINT_URL_STS"] == cloud.url
    assert not any(name.startswith(("AWS_ACCESS", "AWS_SECRET")) for name in seen)


async def test_terminating_ends_the_whole_tree_before_the_instance_is_terminated(
    cloud: Control, tmp_path: Path
) -> None:
    first, second = await launch(cloud, tmp_path, 2)
    async with client_of(cloud) as ec2:
        await ec2.terminate_instances(InstanceIds=[first])
    wait_for(lambda: first in cloud.instances("terminated"))
    assert not runs(first)
    assert runs(second)


async def test_a_machine_that_shuts_itself_down_is_terminated_with_all_it_started(
    cloud: Control, tmp_path: Path
) -> None:
    [id] = await launch(cloud, tmp_path)
    (tmp_path / id / "shut-down").touch()
    wait_for(lambda: id in cloud.instances("terminated"))
    assert cloud.instances()[id]["reason"] == "Client.InstanceInitiatedShutdown"
    assert not runs(id)


async def test_a_template_without_terminate_leaves_a_stopped_machine(cloud: Control, tmp_path: Path) -> None:
    cloud.launch_for_real(tmp_path)
    async with client_of(cloud) as ec2:
        await a_template(ec2, "exit 0", InstanceInitiatedShutdownBehavior=None)
        [id] = ids_of(await ec2.create_fleet(**a_fleet()))
    wait_for(lambda: id in cloud.instances("stopped"))


async def test_a_taken_spot_instance_loses_its_processes(cloud: Control, tmp_path: Path) -> None:
    [id] = await launch(cloud, tmp_path, market="spot")
    cloud.interrupt(id, seconds=0)
    wait_for(lambda: id in cloud.instances("terminated"))
    assert not runs(id)


async def test_everything_ends_with_the_cloud(tmp_path: Path) -> None:
    with running() as cloud:
        ids = await launch(cloud, tmp_path, 2)
        assert all(runs(id) for id in ids)
    assert not any(runs(id) for id in ids)


async def test_what_a_killed_cloud_leaves_is_found_and_ended(tmp_path: Path) -> None:
    with running() as cloud:
        [id] = await launch(cloud, tmp_path)
        os.kill(cloud.pid, 9)
        wait_for(lambda: not Path(f"/proc/{cloud.pid}/exe").exists())
        assert runs(id), "nothing has ended it"
        assert end_leftovers(tmp_path) == [id]
        assert not runs(id)
