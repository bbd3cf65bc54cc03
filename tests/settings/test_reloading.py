"""Settings of a running process: `liveness.*` is applied, an error changes nothing, all others need a restart."""

import asyncio
import logging
import os
import threading
from pathlib import Path

import pytest

from bullpen.config import Liveness, Settings
from bullpen.controllers import Service
from bullpen.engines.memory import Memory
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model.worker import ACTIVE, INACTIVE
from bullpen.settings import Loaded, load
from bullpen.settings.reloading import Reloader


class Desk:
    """A settings file, and a process that was started with it."""

    def __init__(self, folder: Path, text: str = "", environ: dict[str, str] | None = None, *given: str) -> None:
        self.file = folder / "pool.toml"
        self.file.write_text(text)

        def read() -> Loaded:
            return load(environ or {}, config=str(self.file), assignments=given)

        self.reloader = Reloader(read(), read)
        self.adopted: list[Settings] = []
        self.reloader.adopt = self.adopted.append

    def write(self, text: str) -> None:
        """As editors do it: another file in its place."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)

    def looks(self, times: int = 2) -> None:
        for _ in range(times):
            self.reloader.reload_if_changed()

    @property
    def rules(self) -> Liveness:
        return self.reloader.settings.liveness


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="bullpen.settings")
    return caplog


def said(logged: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in logged.records if record.levelno == level]


def test_a_changed_file_is_applied_once_it_stops_changing(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path)
    desk.looks(3)
    assert desk.adopted == []
    desk.write("[liveness]\nconfirm = 20\n")
    desk.looks(1)
    assert desk.adopted == []  # an editor may still be writing
    desk.looks(3)
    assert [one.liveness.confirm for one in desk.adopted] == [20.0]
    assert desk.rules == Liveness(confirm=20.0)
    assert said(logged, logging.INFO) == ["setting changed name=liveness.confirm before=7 now=20"]


def test_a_file_that_keeps_changing_is_not_read(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(5):
        desk.file.write_text(f"[liveness]\nconfirm = 2{number}\n" + "#" * number)
        desk.looks(1)
    assert desk.adopted == []
    desk.looks(1)
    assert desk.rules.confirm == 24.0


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    """It would be waited for, or be empty by now: `--config <(…)` is one."""
    desk = Desk(tmp_path, "[liveness]\nconfirm = 20\n")
    desk.file.unlink()
    os.mkfifo(desk.file)
    writer = os.open(desk.file, os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, b"[liveness]\nconfirm = 30\n")
    emptied = threading.Timer(1.0, os.close, [writer])  # a process that reads it does not wait for ever
    emptied.start()
    desk.reloader.reread()
    emptied.join()
    assert desk.rules.confirm == 20.0
    assert "is not a regular file" in desk.reloader.refused


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[liveness]\nconfirm = 1\n", "liveness.confirm (1) must be more than timings.heartbeat (5)"),
        ("[liveness]\nconfirm = 'long'\n", "liveness.confirm = 'long': must be a number of seconds"),
        ("[liveness]\nconfrim = 20\n", "liveness.confrim = 20: no such setting"),
        ("[liveness]\nmin-lease = 90\n", "liveness.default-lease (60) must be at least liveness.min-lease (90)"),
        ("[liveness\n", "not valid TOML"),
        ("[github]\ntoken = 7\n", "github.token"),
    ],
)
def test_the_error_of_a_changed_file_is_reported_and_the_old_values_stay(
    tmp_path: Path, logged: pytest.LogCaptureFixture, text: str, named: str
) -> None:
    desk = Desk(tmp_path, "[liveness]\nconfirm = 9\n")
    desk.write(text)
    desk.looks(5)
    (error,) = said(logged, logging.ERROR)  # once, not with every look
    assert named in error
    assert "the old values stay" in error
    assert named in desk.reloader.refused
    assert (desk.adopted, desk.rules) == ([], Liveness(confirm=9.0))
    desk.write("[liveness]\nconfirm = 12\n")
    desk.looks()
    assert (desk.rules.confirm, desk.reloader.refused) == (12.0, "")


def test_a_file_with_an_error_is_not_applied_in_part(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("[liveness]\ncleanup = 60\nconfirm = 1\n")
    desk.looks()
    assert desk.rules == Liveness()


def test_new_values_must_not_contradict_settings_that_need_a_restart(
    tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    """The file is consistent, and what would be in force is not."""
    desk = Desk(tmp_path)
    desk.write("[timings]\nheartbeat = 1\nlease = 4\n[liveness]\nconfirm = 3\nmin-lease = 1\n")
    desk.looks()
    assert "liveness.confirm (3) must be more than timings.heartbeat (5)" in said(logged, logging.ERROR)[0]
    assert desk.rules == Liveness()


def test_other_settings_that_changed_are_named_once(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path)
    desk.write("[timings]\nidle = 60\n[classes.huge]\ncpu = 64\nmem = 1\n[liveness]\nconfirm = 20\n")
    desk.looks(4)
    desk.reloader.reread()
    (warning,) = said(logged, logging.WARNING)
    assert "timings.idle" in warning
    assert "classes.huge.cpu" in warning
    assert "liveness" not in warning
    assert "timings.idle" in desk.reloader.restart_needed
    assert desk.rules.confirm == 20.0
    assert desk.reloader.settings.timings.idle == 420.0
    desk.write("[liveness]\nconfirm = 20\n")
    desk.looks()
    assert desk.reloader.restart_needed == ()
    assert "no restart is needed" in said(logged, logging.INFO)[-1]


def test_no_value_of_a_secret_is_logged(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path, "[github]\ntoken = 'hush-1'\n")
    desk.write("[github]\ntoken = 'hush-2'\n")
    desk.looks()
    desk.write("[github]\ntoken = ['hush-2']\n")
    desk.looks()
    assert desk.reloader.restart_needed == ("github.token",)
    assert "hush" not in logged.text
    assert "hush" not in desk.reloader.refused


def test_variables_and_options_still_win_over_the_file(tmp_path: Path) -> None:
    environ = {"BULLPEN_LIVENESS_CONFIRM": "11"}
    desk = Desk(tmp_path, "", environ, "liveness.cleanup=90")
    desk.write("[liveness]\nconfirm = 20\ncleanup = 30\nhold-max = 45\n")
    desk.looks()
    assert desk.rules == Liveness(confirm=11.0, cleanup=90.0, hold_max=45.0)


def test_a_file_that_is_gone_changes_nothing(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path, "[liveness]\nconfirm = 9\n")
    desk.file.unlink()
    desk.looks(4)
    assert f'error="{desk.file}: does not exist any more"' in said(logged, logging.ERROR)[0]
    assert desk.rules.confirm == 9.0
    desk.write("[liveness]\nconfirm = 8\n")
    desk.looks()
    assert desk.rules.confirm == 8.0


def test_a_file_that_appears_later_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reloader = Reloader(load({}), lambda: load({}))
    Path("bullpen.toml").write_text("[liveness]\nconfirm = 20\n")
    for _ in range(2):
        reloader.reload_if_changed()
    assert reloader.settings.liveness.confirm == 20.0


def test_on_request_a_file_that_looks_unchanged_is_read(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path)
    desk.reloader.reread()
    assert said(logged, logging.INFO) == ["settings read again; liveness.* is unchanged"]
    desk.write("[liveness]\nconfirm = 20\n")
    desk.reloader.reread()
    assert desk.rules.confirm == 20.0
    desk.looks(3)
    assert len(desk.adopted) == 1


def test_a_link_with_a_new_target_is_a_change(tmp_path: Path) -> None:
    """As with a mounted ConfigMap."""
    desk = Desk(tmp_path)
    other = tmp_path / "other.toml"
    other.write_text("[liveness]\nconfirm = 20\n")
    desk.file.unlink()
    os.symlink(other, desk.file)
    desk.looks()
    assert desk.rules.confirm == 20.0


# ---- a running service, in virtual time


async def test_a_running_server_sweeps_with_the_new_values(tmp_path: Path) -> None:
    desk, memory = Desk(tmp_path), Memory()
    ports = memory.ports()
    service = Service(ports, desk.reloader.settings, desk.reloader)
    desk.reloader.adopt = service.adopt
    stop = asyncio.Event()
    running = asyncio.ensure_future(service.run(stop))
    await asyncio.sleep(1)
    desk.write("[liveness]\nconfirm = 100\n")
    await asyncio.sleep(10)
    await record_heartbeat(ports, desk.reloader.settings, HeartbeatRequest(key="w", lease=15))
    await asyncio.sleep(110)
    assert memory.tables.workers["w"].state is ACTIVE  # 15 and 100 s: with 7.5 s it would be lost long since
    await asyncio.sleep(10)
    assert memory.tables.workers["w"].state is INACTIVE
    desk.write("[liveness]\ntracking = false\n")
    await asyncio.sleep(10)
    refused = await record_heartbeat(ports, desk.reloader.settings, HeartbeatRequest(key="x", lease=15))
    assert refused.state.value == "absent"
    stop.set()
    await running


def test_heartbeats_cannot_be_switched_off_while_scale_sets_are_served(
    tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    served = """
[engines]
ci = "github"
[github]
scope = "acme/widgets"
token = "t"
scale-sets.small = { events = "trusted" }
[agent]
serve-url = "https://serve.example"
"""
    desk = Desk(tmp_path, served)
    for text in (f"{served}[liveness]\ntracking = false\n", "[liveness]\ntracking = false\n"):
        desk.write(text)
        desk.looks()
        assert desk.rules.tracking
        assert desk.adopted == []
        assert "liveness.tracking (false) must be true with scale sets" in desk.reloader.refused


async def test_a_sweep_ends_with_the_values_with_which_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(Memory().ports(), Settings())
    liveness = service._liveness
    seen: list[float] = []

    async def sweeping() -> None:
        seen.append(liveness.sweeper._rules.confirm)
        service.adopt(Settings(liveness=Liveness(confirm=50.0)))
        await asyncio.sleep(1)
        seen.append(liveness.sweeper._rules.confirm)

    monkeypatch.setattr(liveness.sweeper, "run_once", sweeping)
    await liveness.run_once()
    await liveness.run_once()
    assert seen == [7.0, 7.0, 50.0, 50.0]
