"""Machines: what makes an instance real. Each is a tree of processes on this computer that runs its user data.

A process of instance I finds in its environment, and nothing else:

    BULLPEN_INSTANCE=I                                  the mark by which the whole tree is found and ended
    BULLPEN_ROOT=<folder>/I                             its own root: user data puts below it what it would put below /
    AWS_EC2_METADATA_SERVICE_ENDPOINT=http://…/imds/I/  its identity, its credentials, its notices
    AWS_ENDPOINT_URL_EC2, _STS                          this cloud; others as the launcher was told
    PATH, HOME=<folder>/I, LANG, and what the launcher was told

Its output goes to <folder>/I/console.log. Terminating an instance ends its tree. When the tree's root ends by itself
the machine has shut down: what is left of the tree is ended, and the template says whether it is terminated or stopped.
All of it runs as the user that the launcher was told, if any: GitHub's runner refuses to be root.
"""

import asyncio
import os
import pwd
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from bullpen.host.processes import end_tree, identify, mark_of
from fakes.ec2.account import Ec2Account, Ec2Instance
from fakes.ec2.leftovers import PATIENCE, end_leftovers
from fakes.ec2.templates import user_data


@dataclass
class Machines:
    account: Ec2Account
    url: str
    folder: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    user: str = ""
    _lives: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _ends: dict[str, asyncio.Event] = field(default_factory=dict)

    def enable(self, folder: Path, environment: dict[str, str], user: str) -> None:
        """From now on launch for real, below `folder`. What an earlier cloud left there is ended first."""
        end_leftovers(folder)
        self.folder, self.environment, self.user = folder, environment, user

    def launched(self, instance: Ec2Instance) -> None:
        if self.folder is not None:
            instance.has_processes = True
            self._ends[instance.id] = asyncio.Event()
            root = self.folder / instance.id
            root.mkdir(parents=True)
            (root / "user-data").write_bytes(user_data(instance.data))
            console = (root / "console.log").open("wb")
            if self.user:
                shutil.chown(root, self.user)
            self._lives[instance.id] = asyncio.create_task(self._live(instance, root, console))

    def ended(self, instance: Ec2Instance) -> None:
        if instance.id in self._ends:
            self._ends[instance.id].set()

    async def close(self) -> None:
        """End every tree, return when all are gone, and launch no more."""
        self.folder = None
        for ending in self._ends.values():
            ending.set()
        await asyncio.gather(*self._lives.values())

    async def _live(self, instance: Ec2Instance, root: Path, console: BinaryIO) -> None:
        with console:
            process = await asyncio.create_subprocess_exec(
                "bash",
                str(root / "user-data"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                cwd=root,
                env=self._environment(instance, root),
                start_new_session=True,
                **self._as_user(),
            )
        identity = identify(process.pid)  # now, while the pid is certainly its own
        shutdown = asyncio.create_task(process.wait())
        termination = asyncio.create_task(self._ends[instance.id].wait())
        await asyncio.wait([shutdown, termination], return_when=asyncio.FIRST_COMPLETED)
        termination.cancel()
        await asyncio.to_thread(end_tree, identity, mark_of(instance.id), patience=PATIENCE)
        await shutdown
        instance.has_processes = False
        del self._lives[instance.id], self._ends[instance.id]
        self.account.shut_itself_down(instance)

    def _as_user(self) -> dict[str, Any]:
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []} if self.user else {}

    def _environment(self, instance: Ec2Instance, root: Path) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "AWS_ENDPOINT_URL_EC2": self.url,
            "AWS_ENDPOINT_URL_STS": self.url,
            **self.environment,
            "BULLPEN_INSTANCE": instance.id,
            "BULLPEN_ROOT": str(root),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self.url}/imds/{instance.id}/",
        }
