"""Completion, asked for by a real shell."""

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import CommandLine
from fakes.debian_packages import require

COMMANDS = Path(sys.executable).parent
SCRIPT = """
source <(bullpen completion bash)
complete -p bullpen
COMP_WORDS=({words}) COMP_CWORD={at}
_bullpen_completion bullpen
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("bullpen pro", ["provision"]),
        ("bullpen re", ["release", "refresh", "resume"]),
        ("bullpen provision --allow-p", ["--allow-partial"]),
        ("bullpen job su", ["submit"]),
        ("bullpen completion z", ["zsh"]),
    ],
)
def test_bash_completes_commands_and_options(words: str, completed: list[str], tmp_path: Path) -> None:
    script = SCRIPT.format(words=words, at=len(words.split()) - 1)
    variables = {"PATH": f"{COMMANDS}:/usr/bin:/bin"}
    command = ["bash", "--norc", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path, timeout=600)
    assert ran.returncode == 0, ran.stderr
    registered, *found = ran.stdout.split("\n")[:-1]
    assert "_bullpen_completion bullpen" in registered
    assert found == completed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(bullpen: CommandLine, shell: str, tmp_path: Path) -> None:
    ran = bullpen("completion", shell)
    assert ran.code == 0
    assert f"_BULLPEN_COMPLETE={shell}_complete" in ran.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.out, text=True, check=True, timeout=600)


def test_an_unknown_shell_is_refused(bullpen: CommandLine) -> None:
    ran = bullpen("completion", "csh")
    assert ran.code == 2
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in ran.err


@pytest.mark.slow
def test_fish_completes_commands_and_options(tmp_path: Path) -> None:
    require("fish")
    script = "bullpen completion fish | source; complete -C 'bullpen pro'; complete -C 'bullpen provision --allow-p'"
    variables = {"PATH": f"{COMMANDS}:/usr/bin:/bin", "HOME": str(tmp_path)}
    command = ["fish", "--no-config", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path, timeout=600)
    found = [line.split("\t")[0] for line in ran.stdout.splitlines()]
    assert found == ["provision", "--allow-partial"], ran


@pytest.mark.slow
def test_zsh_completes_commands_in_a_terminal(tmp_path: Path) -> None:
    require("zsh")
    variables = {"PATH": f"{COMMANDS}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"}
    mine, its = pty.openpty()
    process = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=its, stdout=its, stderr=its, env=variables, cwd=tmp_path, start_new_session=True
    )
    os.close(its)
    try:
        os.write(mine, b"autoload -U compinit; compinit -u; source <(bullpen completion zsh); echo rea''dy\n")
        _read_until(mine, b"ready\r\n")
        os.write(mine, b"bullpen provis\t --help | head -1\n")
        assert b"Usage: bullpen provision" in _read_until(mine, b"Usage: bullpen provision")
    finally:
        process.kill()
        process.wait()
        os.close(mine)


def _read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, seen
        seen += os.read(terminal, 4096)
    return seen
