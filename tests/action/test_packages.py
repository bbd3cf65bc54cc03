"""The packages of the engines: installed once, from pinned wheels, completely or not at all; and the restart."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from action.steps import ROOT, start_action
from action_packages import needed, pinned
from bullpen.action import install
from bullpen.errors import Unavailable

RUN = install._run
HOSTILE = dict.fromkeys(("logging.py", "json.py"), "raise SystemExit('a module of the checkout')")


class Commands:
    """Stands for the processes that an environment is made by."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []

    def __call__(self, command: list[str]) -> None:
        self.ran.append(command)
        if "venv" in command:
            interpreter = Path(command[-1]) / "bin" / "python"
            interpreter.parent.mkdir(parents=True)
            interpreter.touch()


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    found = Commands()
    monkeypatch.setattr(install, "_run", found)
    return found


def test_an_environment_is_created_once_from_pinned_wheels(commands: Commands, tmp_path: Path) -> None:
    environ = {"RUNNER_TOOL_CACHE": str(tmp_path)}
    made = install.python(ROOT, environ)
    (_, pip) = commands.ran
    assert pip[pip.index("--only-binary") + 1] == ":all:"
    assert {"--require-hashes", "--no-deps"} <= set(pip)
    assert pip[pip.index("--requirement") + 1] == pip[-1] == str(ROOT / install.PACKAGES)
    assert install.python(ROOT, environ) == made
    assert len(commands.ran) == 2
    assert [one.name for one in (tmp_path / "bullpen").iterdir()] == [Path(made).parents[1].name]


def test_other_pins_have_another_environment(tmp_path: Path) -> None:
    for name in ("pyproject.toml", install.PACKAGES):
        (tmp_path / name).write_text((ROOT / name).read_text())
    wanted = install.requirements(tmp_path)
    before = install.key(tmp_path, wanted)
    assert before == install.key(ROOT, wanted)
    (tmp_path / install.PACKAGES).write_text("httpx==0.0.1\n")
    assert install.key(tmp_path, wanted) != before


PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ]+)(?P<hashes>( \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def pins() -> dict[str, re.Match[str]]:
    """Every pin of the file; fail for a line that is none, or has no hash."""
    text = (ROOT / install.PACKAGES).read_text()
    said = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    found = list(PIN.finditer(said))
    assert "".join(one[0] for one in found) == said
    return {one["name"]: one for one in found}


def test_every_package_that_the_action_installs_has_the_pinned_version_and_hashes() -> None:
    versions = pinned()
    assert {name: one["version"] for name, one in pins().items()} == {name: versions[name] for name in needed()}


def test_the_dependencies_of_the_requirements_are_found() -> None:
    assert {"aiobotocore", "botocore", "aiohttp", "click", "msgspec", "httpx", "pyjwt", "cryptography"} <= set(needed())
    assert "litestar" not in needed()


def test_no_hash_is_listed_twice() -> None:
    hashes = [one for pin in pins().values() for one in pin["hashes"].split() if one != "\\"]
    assert len(hashes) == len(set(hashes))


def test_a_failed_installation_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(command: list[str]) -> NoReturn:
        raise Unavailable("no index")

    monkeypatch.setattr(install, "_run", fail)
    with pytest.raises(Unavailable):
        install.python(ROOT, {"RUNNER_TOOL_CACHE": str(tmp_path)})
    assert list((tmp_path / "bullpen").iterdir()) == []


def test_the_slower_of_two_jobs_uses_the_environment_of_the_faster_one(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "bullpen" / install.key(ROOT, install.requirements(ROOT))

    def and_meanwhile(command: list[str]) -> None:
        commands(command)
        (place / "bin").mkdir(parents=True, exist_ok=True)
        (place / "bin" / "python").touch()

    monkeypatch.setattr(install, "_run", and_meanwhile)
    assert install.python(ROOT, {"RUNNER_TOOL_CACHE": str(tmp_path)}) == str(place / "bin" / "python")
    assert list((tmp_path / "bullpen").iterdir()) == [place]


def test_without_a_writable_tool_cache_the_temporary_directory_is_used(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environ = {"RUNNER_TOOL_CACHE": str(tmp_path / "file"), "RUNNER_TEMP": str(tmp_path / "temp")}
    assert install.python(ROOT, environ).startswith(str(tmp_path / "temp" / "bullpen"))
    with pytest.raises(Unavailable, match="not writable"):
        install.python(ROOT, {"RUNNER_TOOL_CACHE": str(tmp_path / "file")})


def test_an_environment_whose_python_is_gone_is_created_again(commands: Commands, tmp_path: Path) -> None:
    environ = {"RUNNER_TOOL_CACHE": str(tmp_path)}
    made = Path(install.python(ROOT, environ))
    made.unlink()
    made.symlink_to("/nonexistent/python3")
    assert Path(install.python(ROOT, environ)).exists()
    assert len(commands.ran) == 4
    assert [one.name for one in (tmp_path / "bullpen").iterdir()] == [made.parents[1].name]


def test_a_package_that_is_too_old_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert install.are_here(ROOT)
    monkeypatch.setattr(install, "requirements", lambda root: ["msgspec>=0.19", "click>=999.1"])
    assert not install.are_here(ROOT)
    monkeypatch.setattr(install, "requirements", lambda root: ["nosuchpackage>=1"])
    assert not install.are_here(ROOT)


def test_the_error_of_a_failed_command_has_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unavailable, match="failed with exit code 3") as caught:
        install._run([sys.executable, "-c", "print('::error::of pip'); raise SystemExit(3)"])
    assert "server" in caught.value.remedy
    assert capsys.readouterr().out == "\\::error::of pip\n"


@pytest.mark.slow
def test_no_module_of_the_checkout_is_imported_while_packages_are_installed(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install.python(ROOT, {"RUNNER_TOOL_CACHE": str(tmp_path / "tools")})
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "logging.py").write_text(HOSTILE["logging.py"])
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setattr(install, "OUTSIDE", ".")  # each of two locks holds without the other
    for command in commands.ran:
        how = command[1 : command.index("-m") + 2]
        RUN([sys.executable, *how, "--help"])
        assert "usage: " in capsys.readouterr().out.lower()


def test_the_checkout_is_not_where_packages_are_installed_from(capsys: pytest.CaptureFixture[str]) -> None:
    install._run([sys.executable, "-c", "import os; print(os.getcwd())"])
    assert capsys.readouterr().out == "/\n"


@pytest.mark.slow
def test_a_python_without_the_packages_restarts_as_one_that_has_them(tmp_path: Path) -> None:
    """The environment stands in the tool cache already; here it is the tests' own, behind a name of its own. Neither
    imports what the checkout brings."""
    bare = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if subprocess.run([bare, "-c", "import msgspec"], capture_output=True, check=False).returncode == 0:
        pytest.skip(f"{bare} has the packages itself")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(bare)
    place = tmp_path / "tools" / "bullpen" / install.key(ROOT, install.requirements(ROOT)) / "bin"
    place.mkdir(parents=True)
    (place / "python").write_text(f'#!/bin/sh\necho prepared\nexec {sys.executable} "$@"\n')
    (place / "python").chmod(0o755)
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "RUNNER_TOOL_CACHE": str(tmp_path / "tools")}
    ran = start_action({"mode": "release", "home": str(tmp_path / "home")}, environ, tmp_path, HOSTILE).end()
    assert ran.code == 0, ran.log
    assert ran.log.startswith("prepared\n")
    assert "4711 holds no runners" in ran.log
