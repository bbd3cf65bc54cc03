"""The real engines behind the AWS tests: DynamoDB Local and ElasticMQ in one Java process, on loopback only.

    fetch     jars by Maven, one class by javac, once per content of `engines/`, into the user's cache
    running   one process for all users of the same folder; it ends with the last of them, however they end

Everything waits for a bounded time. `python tests/fakes/java_engines.py` fetches beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "engines"
TOOLS = ("java", "javac", "mvn")
REMEDY = "install java and maven (on Debian and Ubuntu: apt-get install default-jdk-headless maven)"
INSTALLING_TAKES = 240.0  # seconds, like all below; a few hundred megabytes of packages
FETCHING_TAKES = 180.0  # 84 MB; a minute on a slow line
COMPILING_TAKES = 180.0
STARTING_TAKES = 180.0  # under three seconds on an idle machine
STALLED_AFTER_MS = 30_000  # Maven's own patience with a silent server is half an hour


class EnginesMissing(Exception):
    """The engines are not available here; the message says why, and what to do."""


class ToolsMissing(EnginesMissing):
    """Nothing to make them with is installed."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Where they listen."""

    pid: int
    dynamodb: str
    sqs: str


def missing_tools(needed: Sequence[str] = TOOLS) -> list[str]:
    return [tool for tool in needed if shutil.which(tool) is None]


def install_tools() -> None:
    """Install what is missing, where this is Debian or Ubuntu and we are root; otherwise leave things as they are."""
    if not missing_tools() or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "-qq", "update"], INSTALLING_TAKES, quiet)
    packages = ["default-jdk-headless", "maven"]
    _run(["apt-get", "-qq", "install", "--no-install-recommends", *packages], INSTALLING_TAKES, quiet)


def fetch() -> Path:
    """The folder with `lib/` and `classes/`, made if it is not there. Of several at once, one fetches."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bullpen" / "test-engines"
    sources = [SOURCES / "pom.xml", SOURCES / "Engines.java"]
    home = cache / hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    if missing := missing_tools(("java",) if home.is_dir() else TOOLS):
        raise ToolsMissing(f"no {' or '.join(missing)} on the PATH: {REMEDY}")
    if home.is_dir():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock", FETCHING_TAKES + COMPILING_TAKES):
        if not home.is_dir():
            # Made aside and renamed: a folder of this name is always whole, even if its maker was killed.
            for left in cache.glob("making-*"):
                shutil.rmtree(left, ignore_errors=True)
            aside = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
            _make(aside)
            aside.rename(home)
    return home


@contextmanager
def running(shared: Path) -> Iterator[Engines]:
    """The engines of all processes that name this folder: the first starts them, and they end with the last.

    Their standard input is a named pipe that each user holds open for writing. The kernel closes it for a user that is
    killed, and the engines end with the last one: there is no count to go wrong, and nothing to stop by hand.
    """
    pipe, ports = shared / "engines.pipe", shared / "engines.ports"
    with _locked(shared / "engines.lock", STARTING_TAKES + FETCHING_TAKES):
        if (held := _hold(pipe)) is None:
            home = fetch()
            pipe.unlink(missing_ok=True)
            ports.unlink(missing_ok=True)
            held = _start(home, pipe, ports, shared / "engines.log")
        pid, dynamodb, sqs = (int(word) for word in ports.read_text().split())
    try:
        yield Engines(pid, f"http://127.0.0.1:{dynamodb}", f"http://127.0.0.1:{sqs}")
    finally:
        os.close(held)


def listening_elsewhere(pid: int) -> list[str]:
    """The addresses, as the kernel writes them, on which a process listens beyond 127.0.0.1."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            sockets.add(os.readlink(descriptor))
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets and not local.startswith("0100007F:"):
                addresses.append(local)
    return addresses


def _make(made: Path) -> None:
    lib, classes = made / "lib", made / "classes"
    classes.mkdir()
    patience = [f"-D{name}={STALLED_AFTER_MS}" for name in ("maven.wagon.rto", "aether.connector.requestTimeout")]
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={lib}", "-DincludeScope=runtime"]
    _run(["mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml"), *patience, *goal], FETCHING_TAKES)
    _run(["javac", "-cp", f"{lib}/*", "-d", str(classes), str(SOURCES / "Engines.java")], COMPILING_TAKES)


def _start(home: Path, pipe: Path, ports: Path, log: Path) -> int:
    """Start the engines reading `pipe`; write where they listen; return our hold on them."""
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # without a writer, a plain open would wait for one
    held = os.open(pipe, os.O_WRONLY)
    os.set_blocking(reading, True)
    memory = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
    classes = ["-cp", f"{home}/classes:{home}/lib/*", f"-Djava.library.path={home}/lib"]
    with log.open("wb") as output:
        # Not a Popen, which complains when it is forgotten: others may use the engines after we have gone.
        pid = os.posix_spawnp(
            "java",
            ["java", *memory, *classes, "Engines", str(ports)],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ],
            setsid=True,  # control-C is for the tests, which still want to tidy up
        )
    os.close(reading)
    deadline = time.monotonic() + STARTING_TAKES
    while not ports.exists() and time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG) == (0, 0):
        time.sleep(0.02)
    if not ports.exists():
        os.close(held)
        raise EnginesMissing(f"the engines did not start:\n{_tail(log.read_text(errors='replace'))}")
    if Path("/proc/net/tcp").exists() and (open_to_others := listening_elsewhere(pid)):
        os.close(held)
        raise EnginesMissing(f"the engines listen beyond loopback: {', '.join(open_to_others)}")
    return held


def _hold(pipe: Path) -> int | None:
    """Keep engines that run from ending; None if none do."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # no pipe, or no process reads it
        return None


def _run(command: Sequence[str], seconds: float, environment: dict[str, str] | None = None) -> None:
    """Run to the end, with everything it starts, or fail with its last words."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        with suppress(subprocess.TimeoutExpired):
            try:
                process.wait(seconds)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if process.returncode != 0:
            stopped = process.returncode == -signal.SIGKILL
            ending = f"was stopped after {seconds:.0f} s" if stopped else f"failed with status {process.returncode}"
            output.seek(0)
            raise EnginesMissing(f"`{command[0]}` {ending}:\n{_tail(output.read())}")


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-15:])


@contextmanager
def _locked(path: Path, seconds: float) -> Iterator[None]:
    """Alone among all processes that name this file. The kernel frees it when its holder dies."""
    deadline = time.monotonic() + seconds
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise EnginesMissing(f"{path} has been held by another process for {seconds:.0f} s") from None
                time.sleep(0.05)
        yield


if __name__ == "__main__":
    try:
        install_tools()
        print(f"engines for the AWS tests: {fetch()}")
    except EnginesMissing as exc:
        sys.exit(str(exc))
