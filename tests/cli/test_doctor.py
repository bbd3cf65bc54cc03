"""`bullpen doctor`: finds problems, prints a remedy for each, and changes nothing."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import on_offer, terminated
from bullpen.cli import doctor_checks
from bullpen.cli.doctor_checks import check_capacity, check_leftovers, check_machine
from bullpen.config import Local, ResourceClass, Settings
from bullpen.inventory import InstanceView, Status
from bullpen.model.signal import Pulse
from bullpen.ports.health import Finding, Health
from command_line import CommandLine


def named(name: str, home: Path) -> Finding:
    return next(finding for finding in check_machine(home) if finding.name == name)


def test_a_sound_machine_passes(bullpen: CommandLine) -> None:
    ran = bullpen("doctor", "--json")
    assert ran.code == 0
    assert ran.answer["state"] == "succeeded"
    names = [check["name"] for check in ran.answer["checks"]]
    assert names == [
        "python",
        "sqlite",
        "home",
        "file system",
        "disk",
        "sockets",
        "/proc",
        "settings",
        "capacity",
    ]


def test_invalid_settings_are_a_finding_of_doctor(bullpen: CommandLine) -> None:
    bullpen.write_settings("[timings]\nleese = 3")
    ran = bullpen("doctor", "--json")
    assert ran.code == 1
    (found,) = [check for check in ran.answer["checks"] if check["name"] == "settings"]
    assert found["state"] == "failed"
    assert found["remedy"] == "Did you mean timings.lease?"


def test_a_damaged_pool_is_a_finding_with_a_remedy(bullpen: CommandLine) -> None:
    Path(".bullpen").mkdir()
    Path(".bullpen/bullpen.db").write_bytes(b"nonsense" * 1000)
    ran = bullpen("doctor")
    assert ran.code == 1
    assert "pool         failed" in ran.out
    assert "Restore it from a backup" in ran.out


def test_doctor_finds_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert named("home", tmp_path / "file").health is Health.FAILED
    assert named("home", tmp_path / "file" / "below").health is Health.FAILED


def test_doctor_finds_a_home_that_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    found = named("home", tmp_path)
    assert found.health is Health.FAILED
    assert "write access" in found.remedy


def test_doctor_finds_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "_kind_of_file_system", lambda place: "nfs4")
    assert named("file system", tmp_path).health is Health.FAILED


@pytest.mark.parametrize(
    ("free", "health"), [(50 << 20, Health.FAILED), (500 << 20, Health.WARNING), (5 << 30, Health.OK)]
)
def test_little_free_disk_is_a_warning_and_almost_none_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, health: Health
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=free))
    assert named("disk", tmp_path).health is health


def test_doctor_finds_idle_targets_beyond_the_capacity() -> None:
    settings = Settings(local=Local(capacity=2), classes={"small": ResourceClass(1, 1, idle_target=3)})
    assert check_capacity(settings).health is Health.WARNING


def test_doctor_finds_a_live_record_without_a_process_but_not_an_ended_one(tmp_path: Path) -> None:
    found = (on_offer("i-1")[-1].after, terminated("i-2")[-1].after)
    status = Status(tuple(InstanceView(one, Pulse(), None) for one in found), ())
    records, processes = check_leftovers(tmp_path, status)
    assert records.health is Health.WARNING
    assert "i-1" in records.found
    assert "i-2" not in records.found
    assert processes.health is Health.OK


def test_doctor_finds_a_process_without_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "_marked_processes", lambda home: [(4711, "i-9")])
    _, processes = check_leftovers(tmp_path, Status((), ()))
    assert processes.health is Health.WARNING
    assert "i-9 (pid 4711)" in processes.found
    assert "bullpen refresh" in processes.remedy
