"""A bare machine that boots from user data: its commands are stubs that note their calls, its disk is a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

INSTANCE = "i-0123456789abcdef0"
REAL = ("cat", "grep", "ln", "mkdir", "tail", "bash")
NOTED = ("iptables", "ip6tables", "shutdown", "sleep", "systemctl", "useradd")
NOTE = '#!/bin/bash\necho "${0##*/} $*" >>"$CALLS"\n'
SYSTEMS = {
    "amazon": {"dnf": f'{NOTE}case "$*" in *python3.11) cp "$GIVEN/python3.11" "$STUBS";; esac\n'},
    "ubuntu": {"apt-get": f'{NOTE}case "$*" in *"install python3.11") cp "$GIVEN/python3.11" "$STUBS";; esac\n'},
}
# As Amazon Linux has it: whatever it is asked to run finds itself on 3.9.
OLD_PYTHON = f'#!/bin/bash\nexec {sys.executable} -I -S -c "import sys; sys.version_info = (3, 9, 25); ${{@: -1}}"\n'
PATIENCE = 120.0  # seconds; what is waited for takes far less
IDENTITY = {
    "instanceId": INSTANCE,
    "availabilityZone": "eu-central-1a",
    "region": "eu-central-1",
    "instanceType": "m7g.large",
    "accountId": "123456789012",
}
CREDENTIALS = {
    "AccessKeyId": "ASIAX",
    "SecretAccessKey": "s3cr3t",
    "Token": "t0k3n",
    "Expiration": "2099-01-01T00:00:00Z",
}
IMDS = {
    "/latest/dynamic/instance-identity/document": json.dumps(IDENTITY),
    "/latest/meta-data/iam/security-credentials/": "bullpen-instance",
    "/latest/meta-data/iam/security-credentials/bullpen-instance": json.dumps(CREDENTIALS),
}


@dataclass
class MachineCloud:
    """What a machine can reach: its metadata, and a table that knows GetItem and the one update of a boot."""

    items: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    url: str = ""

    def answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        key = (request["Key"]["PK"]["S"], request["Key"]["SK"]["S"])
        if operation == "GetItem":
            return {"Item": self.items[key]} if key in self.items else {}
        names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
        assert operation == "UpdateItem", operation
        self.items[key] = {name: values[f":{name}"] for name in names.values() if f":{name}" in values}
        return {}

    @property
    def reported(self) -> dict[str, Any] | None:
        return self.items.get(("TYPE#WS", f"ID#{INSTANCE}"))


@contextmanager
def a_cloud() -> Iterator[MachineCloud]:
    cloud = MachineCloud()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._say("an imds token" if "X-aws-ec2-metadata-token-ttl-seconds" in self.headers else None)

        def do_GET(self) -> None:
            has_token = self.headers.get("X-aws-ec2-metadata-token") == "an imds token"
            self._say(IMDS.get(self.path) if has_token else None)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._say(json.dumps(cloud.answer(self.headers["x-amz-target"].partition(".")[2], request)))

        def _say(self, text: str | None) -> None:
            self.send_response(404 if text is None else 200)
            content = (text or "").encode()
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield cloud
        server.shutdown()


class BootedMachine:
    """One disk and one set of commands. It may boot more than once."""

    def __init__(self, folder: Path, cloud_url: str, system: str = "") -> None:
        self.root, self.stubs, self._calls = folder / "root", folder / "stubs", folder / "calls"
        given = folder / "given"
        for one in (self.root, self.stubs, given):
            one.mkdir(parents=True)
        (self.root / "proc/net").mkdir(parents=True)
        (self.root / "proc/net/if_inet6").touch()
        for name in REAL:
            (self.stubs / name).symlink_to(shutil.which(name) or name)
        for name in NOTED:
            self.stub(name)
        # The user is there once it was made, and a rule once it was added.
        self.stub("id", f'{NOTE}grep -q "useradd" "$CALLS"\n')
        self.stub("iptables", f'{NOTE}[[ "$*" != *" -C "* ]]\n')
        self.stub("ip6tables", f'{NOTE}[[ "$*" != *" -C "* ]]\n')
        self._python = f'#!/bin/bash\nexec {sys.executable} "$@"\n'
        self._write(given / "python3.11", self._python)
        (self.stubs / "cp").symlink_to(shutil.which("cp") or "cp")
        self.stub("python3", OLD_PYTHON if system else self._python)
        for name, text in SYSTEMS.get(system, {}).items():
            self.stub(name, text)
        self._environment = {
            "PATH": str(self.stubs),
            "STUBS": str(self.stubs),
            "GIVEN": str(given),
            "CALLS": str(self._calls),
            "BULLPEN_ROOT": str(self.root),
            "BULLPEN_STUBS": "1",
            "AWS_ENDPOINT_URL_DYNAMODB": cloud_url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": cloud_url,
        }

    def stub(self, name: str, text: str = NOTE) -> None:
        self._write(self.stubs / name, text)

    def remove(self, name: str) -> None:
        (self.stubs / name).unlink()

    def boot(self, user_data: str) -> subprocess.CompletedProcess[str]:
        script = self.root.parent / "user-data"
        script.write_text(user_data)
        command = [str(self.stubs / "bash"), str(script)]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    @property
    def log(self) -> str:
        return (self.root / "var/log/bullpen-boot.log").read_text()

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.unlink(missing_ok=True)
        path.write_text(text)
        os.chmod(path, 0o755)


def a_process(root: Path, cloud_url: str, dynamodb: str, user_data: str) -> subprocess.Popen[bytes]:
    """Boot below a root of this machine: the process becomes the agent."""
    (root / "user-data").write_text(user_data)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "BULLPEN_ROOT": str(root),
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb,
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": cloud_url,
    }
    return subprocess.Popen(["bash", root / "user-data"], env=environment, stdin=subprocess.DEVNULL)
