"""The metadata service, version 2 only, one for each instance below /imds/<instance id>/."""

import json
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aiohttp import web

from fakes.ec2.account import Ec2Account, Ec2Instance, InstanceCredentials
from fakes.ec2.ground import ACCOUNT, REGION, ROLE

LONGEST_TOKEN = 21600  # seconds
CREDENTIALS_LAST = timedelta(hours=6)
ROTATED_BEFORE = timedelta(hours=1)  # their end
TTL, TOKEN = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"


@dataclass
class Metadata:
    account: Ec2Account
    tokens: dict[str, tuple[str, datetime]] = field(default_factory=dict)  # → instance, expiry

    async def answer(self, request: web.Request) -> web.Response:
        instance = self.account.instances.get(request.match_info["id"])
        path = request.match_info["path"]
        if instance is None or self.account.state_of(instance) in ("terminated", "stopped"):
            return web.Response(status=404)
        if path == "latest/api/token":
            return self._token(request, instance)
        owner, expiry = self.tokens.get(request.headers.get(TOKEN, ""), ("", self.account.clock.now()))
        if owner != instance.id or expiry <= self.account.clock.now():
            return web.Response(status=401)
        if request.method != "GET":
            return web.Response(status=405)
        found = self._look_up(instance, path.rstrip("/"))
        return web.Response(status=404) if found is None else web.Response(text=found)

    def _token(self, request: web.Request, instance: Ec2Instance) -> web.Response:
        if request.method != "PUT":
            return web.Response(status=405)
        ttl = request.headers.get(TTL, "")
        if not ttl.isdecimal() or not 1 <= int(ttl) <= LONGEST_TOKEN:
            return web.Response(status=400)
        token = secrets.token_urlsafe(40)
        self.tokens[token] = (instance.id, self.account.clock.now() + timedelta(seconds=int(ttl)))
        return web.Response(text=token, headers={TTL: ttl})

    def _look_up(self, instance: Ec2Instance, path: str) -> str | None:
        if path.startswith("latest/dynamic/"):
            return _document(instance) if path == "latest/dynamic/instance-identity/document" else None
        key = path.removeprefix("latest/meta-data/")
        match key:
            case "instance-id":
                return instance.id
            case "instance-type":
                return instance.kind.name
            case "instance-life-cycle":
                return instance.market
            case "ami-id":
                return str(instance.data["ImageId"])
            case "placement/availability-zone":
                return instance.subnet.zone
            case "placement/availability-zone-id":
                return instance.subnet.zone_id
            case "placement/region":
                return REGION
            case "spot/instance-action" if instance.notice:
                return json.dumps({"action": instance.notice.action, "time": _time(instance.notice.at)})
            case "events/recommendations/rebalance" if instance.rebalance_at:
                return json.dumps({"noticeTime": _time(instance.rebalance_at)})
            case "iam/security-credentials" if "IamInstanceProfile" in instance.data:
                return ROLE
            case _ if key == f"iam/security-credentials/{ROLE}" and "IamInstanceProfile" in instance.data:
                return json.dumps(self._credentials(instance))
        return _tag(instance, key)

    def _credentials(self, instance: Ec2Instance) -> dict[str, str]:
        """Those of the last call while they last, as a machine's role is rotated only now and then."""
        now = self.account.clock.now()
        of_instance = (one for one in self.account.credentials.values() if one.instance_id == instance.id)
        found = next((one for one in of_instance if one.expiry - now > ROTATED_BEFORE), None)
        if found is None:
            key, secret, token = f"ASIA{secrets.token_hex(8).upper()}", secrets.token_hex(20), secrets.token_hex(60)
            found = InstanceCredentials(key, secret, token, now + CREDENTIALS_LAST, instance.id)
            self.account.credentials[key] = found
        return {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": _time(found.expiry - CREDENTIALS_LAST),
            "AccessKeyId": found.key,
            "SecretAccessKey": found.secret,
            "Token": found.token,
            "Expiration": _time(found.expiry),
        }


def _tag(instance: Ec2Instance, key: str) -> str | None:
    """Only where the template lets the machine see its tags, which is not the default."""
    shows_tags = instance.data.get("MetadataOptions", {}).get("InstanceMetadataTags") == "enabled"
    if not shows_tags or not key.startswith("tags/instance"):
        return None
    name = key.removeprefix("tags/instance").lstrip("/")
    return instance.tags.get(name) if name else "\n".join(instance.tags)


def _document(instance: Ec2Instance) -> str:
    document = {
        "accountId": ACCOUNT,
        "architecture": instance.kind.architecture,
        "availabilityZone": instance.subnet.zone,
        "imageId": instance.data["ImageId"],
        "instanceId": instance.id,
        "instanceType": instance.kind.name,
        "pendingTime": _time(instance.launched_at),
        "region": REGION,
        "version": "2017-09-30",
    }
    return json.dumps(document, indent=2)


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
