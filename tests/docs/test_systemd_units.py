"""The units of deploy/systemd: systemd accepts them, they are hardened, and Bullpen has their commands."""

import configparser
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from walkthroughs import ROOT, run

UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
PROGRAM = "/opt/bullpen/bin/bullpen"
# From 0, no exposure, to 100. A service without any of the hardening has 92.
EXPOSURE = 25


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, with a program that exists here."""
    program = tmp_path / "bullpen"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace(PROGRAM, str(program)))
    return tmp_path


def test_there_is_a_service_for_serve_and_one_with_a_timer_for_refresh() -> None:
    assert [unit.name for unit in UNITS] == [
        "bullpen-refresh.service",
        "bullpen-refresh.timer",
        "bullpen-serve.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit(unit: Path, systemd_analyze: str, installed: Path) -> None:
    ran = _analyzed(systemd_analyze, "verify", "--man=no", "--recursive-errors=no", str(installed / unit.name))
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


def test_systemd_finds_a_mistake(systemd_analyze: str, installed: Path) -> None:
    unit = installed / "bullpen-serve.service"
    unit.write_text(unit.read_text().replace("ProtectHome=yes", "ProtectHomes=yes"))
    ran = _analyzed(systemd_analyze, "verify", "--man=no", "--recursive-errors=no", str(unit))
    assert "ProtectHomes" in ran.stderr


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_service_is_hardened(unit: Path, systemd_analyze: str, installed: Path) -> None:
    ran = _analyzed(
        systemd_analyze,
        "security",
        "--offline=yes",
        f"--threshold={EXPOSURE}",
        "--no-pager",
        str(installed / unit.name),
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_service_runs_a_command_that_exists_and_leaves_runners_alive(unit: Path, tmp_path: Path) -> None:
    service = _service(unit)
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == PROGRAM
    (tmp_path / "bullpen.toml").touch()
    command = shlex.join(["bullpen", *arguments, "--help"]).replace("/etc/bullpen", str(tmp_path))
    assert run(command, tmp_path).returncode == 0
    assert service["KillMode"] == "process"
    assert not {"PrivateTmp", "RemoveIPC"} & set(service)  # what they make is deleted when the unit ends
    assert "/tmp" in service["ReadWritePaths"].split()


def _service(unit: Path) -> configparser.SectionProxy:
    read = configparser.RawConfigParser(strict=True)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string(unit.read_text())
    return read["Service"]


def _analyzed(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
