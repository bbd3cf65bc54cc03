"""Starts and ends the process of a local machine, and lays out its directory.

<home>/instances/<id>/
    agent.json  agent.log      configuration of the agent, and its log
    work  home  tmp            what a job may fill, and what is cleaned after it
    runner  hooks              GitHub's runner and how it asks about jobs, where those are GitHub's

With `local.work-dir` the directory of a machine is made there, and <home>/instances/<id> links to it: so a job fills
another disk than the database's, and the machine is found and ended even if the setting has changed since.

Jobs that run as a user of their own may pass through the home to their places. On the way they see names, for GitHub's
runner lists every directory above it before it does anything; everything that is not theirs is closed to them.
"""

import json
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import bullpen
from bullpen.config import Settings
from bullpen.engines.local import users
from bullpen.host.processes import ProcessIdentity, TreeSurvived, end_tree, identify, mark_of
from bullpen.host.stored_files import ROOM
from bullpen.host.sweep import remove_tree
from bullpen.model.job import LOSSES
from bullpen.settings.github import agent_settings
from bullpen.structured_log import get_logger

log = get_logger("bullpen.engines.local")

AGENT = Path(bullpen.__file__).parent / "agent" / "__main__.py"
PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL")
"""What a machine inherits of this environment. Nothing else: the caller may hold tokens that no job must see."""
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""And the way out to GitHub, where jobs are GitHub's: its runner, and what it is fetched from, go by these."""

PATIENCE = 10.0  # seconds for a killed tree to leave; what stays longer is stuck in the kernel


FREED_WITHIN = 2.0  # seconds in which the process that ended the user's last machine lets go of it
LOOK_AGAIN_AFTER = 0.02
HELD_AS = 3  # the agent's open file by which it has its user; it passes none on


class NotLaunched(Exception):
    """The process could not be started; nothing of it is left."""

    remedy = "Correct what the message says, and run the command again; `bullpen doctor` checks this machine."


class UserTaken(NotLaunched):
    """Another machine has the user as whom its jobs were to run, or something runs as it."""

    remedy = "End what runs as this user, or name another one in local.runner-users."


def directory_of(home: Path, instance_id: str) -> Path:
    return home / "instances" / instance_id


def launch(home: Path, instance_id: str, settings: Settings, user: str = "", token: str = "") -> ProcessIdentity:
    """Start the agent detached: its own session, no inherited pipe or file; it outlives its parent. Raise NotLaunched.

    `user` is as whom its jobs run, and those of no other machine; empty: as Bullpen does. `token` is its own for
    `bullpen serve`, where agents use that.
    """
    held = _hold(user) if user else None
    directory = directory_of(home, instance_id)
    try:
        _make_directory(home, directory, settings.local.work_dir, for_user=bool(user))
        for name in ("work", "home", "tmp"):
            (directory / name).mkdir(mode=0o700)
        config = directory / "agent.json"
        with open(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(_told(home, instance_id, settings, user, token), file)  # it may hold the agent's token
        pid = os.posix_spawn(
            sys.executable,
            # By path and without site-packages: half the start-up time, and nothing but Python is needed.
            [sys.executable, "-I", "-S", str(AGENT), str(config)],
            environment(instance_id, settings),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(directory / "agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                *([(os.POSIX_SPAWN_DUP2, held.handle, HELD_AS)] if held else []),
            ],
            setsid=True,
            setsigmask=[],
        )
    except OSError as exc:
        remove_directory(home, instance_id)
        raise NotLaunched(f"{instance_id} could not be started: {exc}") from exc
    if held is not None:
        held.release()  # the agent has it now
    process = identify(pid)
    if process is None:
        raise NotLaunched(f"{instance_id} ended at once: see {directory / 'agent.log'}")
    return process


def _make_directory(home: Path, directory: Path, work_dir: str, *, for_user: bool) -> None:
    """Raise OSError."""
    if not work_dir:
        directory.mkdir(mode=0o700, parents=True)
        if for_user:
            for above in (home, directory.parent):
                above.chmod(0o755)
        return
    place = Path(work_dir)
    with suppress(FileExistsError):
        place.mkdir(mode=0o755 if for_user else 0o700, parents=True)
    mode = place.stat().st_mode
    if for_user and mode & 0o022 and not mode & stat.S_ISVTX:
        # Bullpen did not make it, so does not close it; and one job could put its own directory in a neighbour's place.
        raise PermissionError(f"local.work-dir: others may write to {place}: chmod go-w {place}")
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The link first: killed here, it leads nowhere, and the end of the machine removes it.
    directory.symlink_to(place / directory.name)
    (place / directory.name).mkdir(mode=0o700)


def end(home: Path, instance_id: str, process: ProcessIdentity | None, user: int | None = None) -> bool | None:
    """End everything that runs for a machine, and as the user that is its alone, and remove its directory.

    True if something was ended, None if there was nothing, False if something stays or this process runs inside.
    """
    try:
        ended = end_tree(process, mark_of(instance_id), patience=PATIENCE, user=user)
    except (TreeSurvived, ValueError):
        return False
    remove_directory(home, instance_id)
    return True if ended else None


def _hold(user: str) -> users.Hold:
    """Raise UserTaken. What runs as the user would be ended with the machine, and could read what its jobs have."""
    uid = users.number_of(user)
    if uid is None:
        raise UserTaken(
            f"no job can run as {user!r}: there is no such user, or it is root or the user that runs Bullpen"
        )
    give_up = time.monotonic() + FREED_WITHIN
    try:
        users.note_turn(uid)
        while (held := users.hold(uid)) is None:
            if time.monotonic() >= give_up:
                pids = users.strangers(uid)
                raise UserTaken(
                    f"user {user!r} is used by another machine, perhaps of another home (processes: {pids})"
                )
            time.sleep(LOOK_AGAIN_AFTER)
    except users.Unusable as exc:
        raise NotLaunched(str(exc)) from exc
    if pids := users.strangers(uid):
        held.release()
        raise UserTaken(f"user {user!r} must be used for jobs only, but already has processes: {pids}")
    return held


def remove_directory(home: Path, instance_id: str) -> None:
    """As far as possible, however deep it is nested: what resists is logged and stays."""
    directory = directory_of(home, instance_id)
    troubles = {}
    with suppress(OSError):  # there is no link: it is in the home
        target = Path(os.readlink(directory))
        if target.is_absolute() and target.name == instance_id:  # no other directory, whatever a job has put there
            troubles = remove_tree(target)
    troubles |= remove_tree(directory)
    for path, why in troubles.items():
        log.warning("path left behind", instance=instance_id, path=path, reason=why)


def environment(instance_id: str, settings: Settings) -> dict[str, str]:
    """The environment of an instance, whatever else this process's holds."""
    names = PASSED_ON + PROXIES if settings.on_github else PASSED_ON
    mark, _, value = mark_of(instance_id).partition("=")
    return {name: os.environ[name] for name in names if name in os.environ} | {mark: value}


def _told(home: Path, instance_id: str, settings: Settings, user: str, token: str) -> dict[str, Any]:
    """The agent's configuration: see `bullpen.agent.config`."""
    timings, agent, losses = settings.timings, settings.agent, settings.liveness.losses
    room = settings.sync.store_bytes
    return {
        "instance_id": instance_id,
        "home": str(home),
        "heartbeat": timings.heartbeat,
        # A created record's threshold, seen from the start of its machine.
        "appears_within": timings.provision + timings.claim_grace,
        "max_runtime": timings.max_runtime,
        "idle": timings.idle,
        "pre_runner_script": agent.pre_runner_script,
        "pre_runner_timeout": agent.pre_runner_timeout,
        "keep": [f"home/{pattern}" for pattern in agent.keep],
        "lease": timings.lease,
        "verify": settings.liveness.verify,
        "purge": timings.purge,
        # Only where it is not the default: an agent of an earlier version refuses a key that it does not know.
        **({"losses": losses} if losses != LOSSES else {}),
        **({"room": room} if room != ROOM else {}),
        "capabilities": list(agent.capabilities),
        **({"runner_user": user, "shares_machine": True} if user else {}),
        **agent_settings(settings),
        **({"serve_url": agent.serve_url, "token": token} if agent.serve_url else {}),
    }
