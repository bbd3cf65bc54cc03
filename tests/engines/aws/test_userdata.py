"""User data, run for real: on machines of stubs, and on this one against DynamoDB Local."""

from __future__ import annotations

import asyncio
import base64
import bz2
import hashlib
import io
import json
import os
import re
import shlex
import stat
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from builders import register
from bullpen.config import Agent, Aws, Settings
from bullpen.engines.aws.boot import userdata
from bullpen.engines.aws.boot.archive import Archive, archive
from bullpen.engines.aws.boot.userdata import LIMIT, told
from bullpen.engines.aws.dynamodb.items import encode, key_of, raw_key
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.errors import ConfigError
from bullpen.model.instance import Instance
from engines.aws.machine import INSTANCE, NOTE, PATIENCE, BootedMachine, MachineCloud, a_cloud, a_process
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings

pytestmark = pytest.mark.slow

SETTINGS = Settings(aws=Aws(pool="pool-1"), agent=Agent(pre_runner_script="echo '@BOOT@' BOOT\nBOOT\n"))
RECORD = {"round": {"S": "a1b2"}, "runId": {"S": "run-1"}}
AGENT = archive()


def text_of(settings: Settings = SETTINGS) -> str:
    return userdata.own_user_data(settings)


def unpacked(text: str) -> zipfile.ZipFile:
    encoded = text.partition("<<'BOOT'\n")[2].partition("\nBOOT\n")[0]
    return zipfile.ZipFile(io.BytesIO(bz2.decompress(base64.b64decode(encoded))))


@pytest.fixture
def cloud() -> Iterator[MachineCloud]:
    with a_cloud() as cloud:
        cloud.items["TYPE#Agent", f"ID#{AGENT.sha256}"] = {"archive": {"B": base64.b64encode(AGENT.content).decode()}}
        cloud.items["TYPE#Instance", f"ID#{INSTANCE}"] = RECORD
        yield cloud


def test_bash_accepts_it() -> None:
    assert subprocess.run(["bash", "-n"], input=text_of(), text=True, check=False).returncode == 0


def test_it_leaves_room_for_a_script_of_the_users() -> None:
    assert len(text_of().encode()) < LIMIT - 3 * 1024


def test_it_is_the_same_for_the_same_settings_and_pins_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of()
    assert text == text_of(Settings(aws=Aws(pool="pool-1"), agent=SETTINGS.agent))
    assert AGENT.sha256 in text
    monkeypatch.setattr(userdata, "archive", lambda: Archive(AGENT.content, "0" * 64, AGENT.version))
    assert text_of() != text


def test_it_is_the_same_however_a_host_finds_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert text_of(replace(SETTINGS, aws=replace(SETTINGS.aws, region="eu-central-1"))) == text_of()


def test_the_configuration_reaches_the_agent_unchanged() -> None:
    assert json.loads(unpacked(text_of()).read("told.json")) == told(SETTINGS)
    assert told(SETTINGS)["pre_runner_script"] == SETTINGS.agent.pre_runner_script


def test_it_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-of-the-caller")
    text = text_of(replace(SETTINGS, agent=Agent(serve_url="https://pool.example")))
    inside = b"".join(map(unpacked(text).read, unpacked(text).namelist()))
    assert "s3cr3t-of-the-caller" not in text + inside.decode()
    assert not re.search(r"bp[ao]_[0-9a-z]|AKIA|ASIA|BEGIN [A-Z ]*PRIVATE KEY", text + inside.decode())
    assert "token" not in told(SETTINGS)


def test_too_much_is_refused_with_the_scripts_share() -> None:
    # Digests of numbers: nothing makes them shorter.
    script = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(400))
    settings = replace(SETTINGS, agent=Agent(pre_runner_script=script))
    with pytest.raises(ConfigError) as raised:
        text_of(settings)
    found = re.fullmatch(
        r"user data: has (\d+) bytes and EC2 takes 16384; (\d+) of them are agent.pre-runner-script", str(raised.value)
    )
    assert found
    size, share = int(found[1]), int(found[2])
    assert size > LIMIT
    assert size - share == len(text_of(replace(SETTINGS, agent=Agent())).encode())


# ---- machines of stubs


@pytest.mark.parametrize(
    ("system", "installed"),
    [
        ("amazon", ["dnf install -y python3.11"]),
        (
            "ubuntu",
            [
                "apt-get -q -y -o DPkg::Lock::Timeout=30 update",
                "apt-get -q -y -o DPkg::Lock::Timeout=30 install python3.11",
            ],
        ),
        ("", []),
    ],
)
def test_python_is_found_or_installed_and_the_agent_started(
    tmp_path: Path, cloud: MachineCloud, system: str, installed: list[str]
) -> None:
    machine = BootedMachine(tmp_path, cloud.url, system)
    answer = machine.boot(text_of())
    assert answer.returncode == 0, machine.log
    state = machine.root / "var/lib/bullpen"
    block = "OUTPUT -d {} -m owner --uid-owner runner -j REJECT"
    assert machine.calls == [
        "shutdown -h +20",
        *installed,
        "id runner",
        f"useradd --system --user-group --no-create-home --home-dir {state}/home --shell /bin/bash runner",
        *(f"iptables -w 30 {how} {block.format('169.254.169.254')}" for how in ("-C", "-I")),
        *(f"ip6tables -w 30 {how} {block.format('fd00:ec2::254')}" for how in ("-C", "-I")),
        "systemctl daemon-reload",
        "systemctl start bullpen-agent.service",
        "systemctl is-active bullpen-agent.service",
        "shutdown -c",
    ]
    assert (machine.root / f"opt/bullpen/agent-{AGENT.version}.pyz").read_bytes() == bz2.decompress(AGENT.content)
    assert cloud.reported is None


def test_the_agent_gets_its_identity_in_a_file_for_root_only(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    machine.boot(text_of())
    path = machine.root / "var/lib/bullpen/agent.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    own: dict[str, object] = {
        "instance_id": INSTANCE,
        "region": "eu-central-1",
        "home": str(path.parent),
        "runner_user": "runner",
    }
    own["shutdown"] = ["shutdown", "-h", "now"]
    assert json.loads(path.read_text()) == {**told(SETTINGS), **own, "endpoint": cloud.url}


def stop_post(machine: BootedMachine) -> subprocess.CompletedProcess[bytes]:
    """What systemd does last when the agent's unit stops."""
    unit = (machine.root / "etc/systemd/system/bullpen-agent.service").read_text().splitlines()
    command = [line for line in unit if line.startswith("ExecStopPost=")][-1].removeprefix("ExecStopPost=")
    environment = {"CALLS": str(machine.root.parent / "calls")}
    return subprocess.run(shlex.split(command), env=environment, check=False)


def test_the_machine_ends_with_its_agent(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    machine.boot(text_of())
    unit = (machine.root / "etc/systemd/system/bullpen-agent.service").read_text().splitlines()
    pyz, config = f"{machine.root}/opt/bullpen/agent-{AGENT.version}.pyz", f"{machine.root}/var/lib/bullpen/agent.json"
    assert f"ExecStart={machine.stubs}/python3 -I -S {pyz} {config}" in unit
    assert "Restart=no" in unit
    assert stop_post(machine).returncode == 0
    assert machine.calls[-1] == "shutdown -h now"
    assert "StandardOutput=journal+console" in unit
    assert f"StandardError=append:{machine.root}/var/lib/bullpen/agent.log" in unit


def test_booting_twice_changes_nothing(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    machine.boot(text_of())
    for name in ("iptables", "ip6tables"):
        machine.stub(name)  # the rule is there
    first = len(machine.calls)
    assert machine.boot(text_of()).returncode == 0
    assert [call.split()[0] for call in machine.calls[first:]] == [
        "shutdown",
        "id",
        "iptables",
        "ip6tables",
        "systemctl",
        "systemctl",
        "systemctl",
        "shutdown",
    ]


def test_no_daemon_starts_anything_for_jobs_later(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    lists = [machine.root / "etc" / name for name in ("cron.allow", "at.allow")]
    for _ in range(2):
        assert machine.boot(text_of()).returncode == 0, machine.log
        assert [path.read_text() for path in lists] == ["root\n", "root\n"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in lists} == {0o644}, "crontab and at read them as any user"


def test_an_image_s_own_lists_of_whom_daemons_serve_stay_as_they_are(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    own = {"cron.allow": "runner\n", "at.allow": "", "at.deny": "daemon\n"}
    (machine.root / "etc").mkdir()
    for name, text in own.items():
        (machine.root / "etc" / name).write_text(text)
    assert machine.boot(text_of()).returncode == 0, machine.log
    found = {path.name: path.read_text() for path in (machine.root / "etc").iterdir() if path.is_file()}
    assert found == own


def test_an_installation_that_fails_at_first_is_tried_again(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url, "ubuntu")
    locked = '[[ $(grep -c "install python3.11" "$CALLS") -gt 2 ]] || exit 100\n'
    apt = (machine.stubs / "apt-get").read_text()
    machine.stub("apt-get", apt.replace("\ncase", f'\n[[ "$*" == *update ]] && exit\n{locked}case'))
    assert machine.boot(text_of()).returncode == 0, machine.log
    assert machine.calls.count("sleep 5") == 2


def test_a_machine_that_cannot_get_python_is_ended(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url, "amazon")
    machine.stub("dnf", "#!/bin/bash\necho no such package >&2\nexit 1\n")
    answer = machine.boot(text_of())
    assert answer.returncode != 0
    assert set(machine.calls) == {"shutdown -h +20", "sleep 5", "shutdown -h now"}
    assert "no such package" in answer.stdout  # the console is all there is


def fails_and_is_reported(machine: BootedMachine, cloud: MachineCloud, text: str) -> dict[str, Any]:
    assert machine.boot(text).returncode != 0
    assert machine.calls[-1] == "shutdown -h now"
    assert not [call for call in machine.calls if call.startswith("systemctl start")]
    assert cloud.reported is not None, machine.log
    return cloud.reported


def test_a_corrupted_agent_never_runs_and_is_reported(tmp_path: Path, cloud: MachineCloud) -> None:
    content = AGENT.content[:-1] + bytes([AGENT.content[-1] ^ 1])
    cloud.items["TYPE#Agent", f"ID#{AGENT.sha256}"] = {"archive": {"B": base64.b64encode(content).decode()}}
    machine = BootedMachine(tmp_path, cloud.url)
    signal = fails_and_is_reported(machine, cloud, text_of())
    assert signal["value"] == {"M": {"signal": {"S": "UD_FAILED"}, "runId": RECORD["runId"]}}
    assert signal["round"] == RECORD["round"]
    assert re.search("does not match its checksum [0-9a-f]{64}", signal["text"]["S"])
    assert not list(machine.root.rglob("agent-*.pyz"))


def test_an_agent_that_the_table_does_not_have_is_reported_with_the_remedy(tmp_path: Path, cloud: MachineCloud) -> None:
    del cloud.items["TYPE#Agent", f"ID#{AGENT.sha256}"]
    signal = fails_and_is_reported(BootedMachine(tmp_path, cloud.url), cloud, text_of())
    assert "table pool-1 has no agent" in signal["text"]["S"]
    assert "run `bullpen refresh`" in signal["text"]["S"]


def test_a_machine_that_starts_again_ends_in_its_second_life_only(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    machine.boot(text_of())
    units = machine.root / "etc/systemd/system"
    wanted = units / "multi-user.target.wants/bullpen-again.service"
    assert wanted.resolve() == (units / "bullpen-again.service").resolve()
    unit = wanted.read_text().splitlines()
    life = machine.root / "run/bullpen"
    assert f"ConditionPathExists=!{life}" in unit
    assert life.exists()  # below /run, so not in a second life
    assert f"ExecStart={machine.stubs}/shutdown -h now" in unit


@pytest.mark.parametrize("hanging", ["dnf", "systemctl"])
def test_a_boot_that_hangs_is_ended_by_the_clock_and_so_is_its_second_life(
    tmp_path: Path, cloud: MachineCloud, hanging: str
) -> None:
    machine = BootedMachine(tmp_path, cloud.url, "amazon")
    machine.stub(hanging, "#!/bin/bash\nkill -KILL $PPID\n")  # as far as it gets
    machine.boot(text_of())
    assert machine.calls[0] == "shutdown -h +20"
    assert not {"shutdown -c", "shutdown -h now"} & set(machine.calls)
    assert (machine.root / "etc/systemd/system/multi-user.target.wants/bullpen-again.service").exists()


def no_room_for_the_log(machine: BootedMachine) -> None:
    (machine.root / "var/log").mkdir(parents=True)
    (machine.root / "var/log/bullpen-boot.log").symlink_to("/dev/full")
    machine.stub("tail")  # the device has no end


def a_log_that_cannot_be_opened(machine: BootedMachine) -> None:
    (machine.root / "var/log/bullpen-boot.log").mkdir(parents=True)


def a_disk_that_takes_nothing(machine: BootedMachine) -> None:
    (machine.root / "var").write_text("not a folder")


@pytest.mark.parametrize("broken", [no_room_for_the_log, a_log_that_cannot_be_opened, a_disk_that_takes_nothing])
def test_a_machine_whose_disk_is_full_or_broken_is_ended(
    tmp_path: Path, cloud: MachineCloud, broken: Callable[[BootedMachine], None]
) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    broken(machine)
    assert machine.boot(text_of()).returncode != 0
    assert machine.calls[-1] == "shutdown -h now"


def test_a_kernel_without_ipv6_needs_no_rule_for_it(tmp_path: Path, cloud: MachineCloud) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    (machine.root / "proc/net/if_inet6").unlink()
    machine.stub("ip6tables", f"{NOTE}exit 3\n")
    assert machine.boot(text_of()).returncode == 0, machine.log
    assert not [call for call in machine.calls if call.startswith("ip6tables")]


def test_an_agent_that_cannot_be_started_is_reported_before_its_machine_ends(
    tmp_path: Path, cloud: MachineCloud
) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    machine.stub("systemctl", f"{NOTE}[[ $1 != start ]]\n")
    machine.boot(text_of())
    assert cloud.reported is not None
    first = machine.calls.index("systemctl start bullpen-agent.service")
    assert machine.calls[first + 1 :] == ["shutdown -h now"]  # the script's own, after the report
    assert stop_post(machine).returncode == 0
    assert machine.calls[first + 1 :] == ["shutdown -h now"]  # the unit's adds none


def test_an_agent_that_ends_before_its_unit_is_relied_on_still_ends_the_machine(
    tmp_path: Path, cloud: MachineCloud
) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    machine.stub("systemctl", f"{NOTE}[[ $1 != is-active ]]\n")
    assert machine.boot(text_of()).returncode != 0
    assert machine.calls[-1] == "shutdown -h now"
    assert "shutdown -c" not in machine.calls


@pytest.mark.parametrize("command", ["useradd", "iptables", "ip6tables", "systemctl"])
def test_a_machine_that_cannot_be_set_up_runs_no_agent_and_is_reported(
    tmp_path: Path, cloud: MachineCloud, command: str
) -> None:
    machine = BootedMachine(tmp_path, cloud.url)
    machine.stub(command, '#!/bin/bash\necho "out of order" >&2\nexit 4\n')
    signal = fails_and_is_reported(machine, cloud, text_of())
    assert "out of order" in signal["text"]["S"]
    assert "failed with status 4" in signal["text"]["S"]


@pytest.mark.parametrize(("system", "package"), [("amazon", "iptables-nft"), ("ubuntu", "iptables")])
def test_a_firewall_that_is_missing_is_installed_or_the_boot_fails(
    tmp_path: Path, cloud: MachineCloud, system: str, package: str
) -> None:
    machine = BootedMachine(tmp_path, cloud.url, system)
    machine.remove("iptables")
    signal = fails_and_is_reported(machine, cloud, text_of())  # installed, says the stub; and still not there
    assert "iptables" in signal["text"]["S"]
    assert any(call.endswith(f" {package}") for call in machine.calls)


# ---- this machine


async def reported(table: TableClient) -> dict[str, Any]:
    """What the instance signals first."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if found := await table.get(raw_key("WS", INSTANCE)):
                return found
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.real_loop
async def test_below_a_root_of_its_own_the_agent_really_starts(
    tmp_path: Path, aws_settings: MakeSettings, cloud: MachineCloud
) -> None:
    settings = aws_settings(agent=Agent(pre_runner_script="echo booted > ../booted"))
    async with a_table(settings.aws) as table:
        await table.put({**raw_key("Agent", AGENT.sha256), "archive": {"B": AGENT.content}})
        record = register(INSTANCE, run_id="").after
        await table.put({**key_of(Instance, INSTANCE), **encode(record)})
        process = a_process(tmp_path, cloud.url, settings.aws.endpoints["dynamodb"], text_of(settings))
        try:
            signal = await reported(table)
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0, (tmp_path / "var/lib/bullpen/agent.log").read_text()
    assert signal["value"]["M"]["signal"] == {"S": "UD_OK"}
    assert signal["round"] == {"S": record.round}
    assert (tmp_path / "var/lib/bullpen/booted").read_text() == "booted\n"
    assert sorted(os.listdir(tmp_path)) == ["opt", "user-data", "var"]
