"""EC2's metadata service: IMDSv2, short time-outs, no secret in any message. It also travels in user data."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ENDPOINT = "http://169.254.169.254"
TOKEN = "X-aws-ec2-metadata-token"
TOKEN_LASTS = "21600"  # seconds: the longest there is
RENEWED_BEFORE = 300.0  # seconds before credentials expire there are new ones
HELD_FOR = 10.0  # seconds until they are asked for again, however soon they expire
ROLE = "/latest/meta-data/iam/security-credentials/"


class NoMetadata(Exception):
    """The service did not answer, or not as it should."""


class MachineIdentity(NamedTuple):
    instance_id: str
    zone: str
    region: str
    type: str
    account: str


class Metadata:
    """One machine's metadata service. Not for two threads."""

    def __init__(self, patience: float = 1.0) -> None:
        endpoint = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or ENDPOINT
        parts = urlsplit(endpoint)
        self._host, self._base, self._patience = parts.netloc, parts.path.rstrip("/"), patience
        self._token = ""
        self._credentials: tuple[str, str, str] | None = None
        self._renew_at = self._expire_at = 0.0

    def identity(self) -> MachineIdentity:
        path = "/latest/dynamic/instance-identity/document"
        names = ("instanceId", "availabilityZone", "region", "instanceType", "accountId")
        if (found := self.texts(path, *names)) is None:
            raise NoMetadata("the metadata service has no instance identity")
        return MachineIdentity(*found)

    def credentials(self) -> tuple[str, str, str]:
        """Those of the machine's role: access key, secret key, session token. Kept until minutes before they expire."""
        now = time.time()
        if self._credentials is None or now >= self._renew_at:
            try:
                self._renew(now)
            except NoMetadata:
                if now >= self._expire_at:
                    raise
        assert self._credentials is not None, "renewed without a result"
        return self._credentials

    def forget_credentials(self) -> None:
        """They were refused: the next ones are asked for."""
        self._credentials, self._expire_at = None, 0.0

    def _renew(self, now: float) -> None:
        role = (self._get(ROLE) or "").partition("\n")[0].strip()
        found = self.texts(ROLE + role, "AccessKeyId", "SecretAccessKey", "Token", "Expiration") if role else None
        if not found:
            raise NoMetadata("this machine has no role: give its launch template an instance profile")
        self._expire_at = time_of(found[3]).timestamp()
        self._renew_at = max(self._expire_at - RENEWED_BEFORE, now + HELD_FOR)
        self._credentials = found[0], found[1], found[2]

    def texts(self, path: str, *names: str) -> list[str] | None:
        """These texts of the object at `path`; None if nothing is there."""
        if (text := self._get(path)) is None:
            return None
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in names):
            raise NoMetadata(f"{path} has an unexpected format")  # and is not shown: it may hold a secret
        return [found[name] for name in names]

    def _get(self, path: str) -> str | None:
        status, found = self._ask("GET", path, {TOKEN: self._token}) if self._token else (401, "")
        if status == 401:  # it has run out
            status, self._token = self._ask("PUT", "/latest/api/token", {f"{TOKEN}-ttl-seconds": TOKEN_LASTS})
            if status == 200:
                status, found = self._ask("GET", path, {TOKEN: self._token})
        if status not in (200, 404):
            self._token = ""
            raise NoMetadata(f"{path} was answered {status}")
        return found if status == 200 else None

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        connection = HTTPConnection(self._host, timeout=self._patience)
        try:
            connection.request(method, self._base + path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read(65536).decode()
        except (OSError, HTTPException, ValueError) as exc:
            raise NoMetadata(f"the metadata service did not answer: {exc!r}") from exc
        finally:
            connection.close()


def time_of(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as exc:
        raise NoMetadata(f"{text!r} is not a time") from exc
