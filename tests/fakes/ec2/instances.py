"""DescribeInstances, TerminateInstances, GetConsoleOutput, CreateTags."""

import base64
import re
from collections.abc import Sequence
from typing import Any

from fakes.ec2.account import STATE_CODES, Ec2Account, Ec2Instance
from fakes.ec2.catalogue import SPOT
from fakes.ec2.filters import filtered, page, tag_values
from fakes.ec2.ground import ACCOUNT, PROFILE_ARN, SECURITY_GROUP, VPC
from fakes.ec2.models import ec2_shape
from fakes.ec2.reading import Params
from fakes.ec2.refusal import Ec2Refusal, invalid
from fakes.ec2.tags import as_dict, as_list
from fakes.ec2.writing import Answer, projected

SMALLEST_PAGE = 5
REASONS = {
    "Client.UserInitiatedShutdown": "User initiated shutdown",
    "Client.InstanceInitiatedShutdown": "Instance initiated shutdown",
    "Server.SpotInstanceTermination": "Spot instance termination",
}


def describe(account: Ec2Account, params: Params) -> Answer:
    if "InstanceIds" in params and "MaxResults" in params:
        raise Ec2Refusal("InvalidParameterCombination", "instancesSet cannot be used with the parameter maxResults")
    if params.get("MaxResults", SMALLEST_PAGE) < SMALLEST_PAGE:
        raise invalid(f"MaxResults must be at least {SMALLEST_PAGE}")
    known = account.seen_after(account.timings.describe_lag)
    found = _named(known, params["InstanceIds"]) if params.get("InstanceIds") else list(known.values())
    found = filtered(found, params.get("Filters", []), lambda instance, name: _values(account, instance, name))
    shown, following = page(found, params)
    reservations: dict[str, list[Ec2Instance]] = {}
    for instance in shown:
        reservations.setdefault(instance.reservation_id, []).append(instance)
    return {
        "Reservations": [
            {"ReservationId": id, "OwnerId": ACCOUNT, "Instances": [_shown(account, one) for one in members]}
            for id, members in reservations.items()
        ],
        **following,
    }


def terminate(account: Ec2Account, params: Params) -> Answer:
    """All of them or, when one id is unknown, none. Terminated already is fine."""
    known = account.seen_after(account.timings.terminate_lag)
    changes = []
    for instance in _named(known, params["InstanceIds"]):
        before = account.state_of(instance)
        account.end(instance, "Client.UserInitiatedShutdown")
        after = before if before == "terminated" else "shutting-down"
        changes.append({"InstanceId": instance.id, "PreviousState": _state(before), "CurrentState": _state(after)})
    return {"TerminatingInstances": changes}


def console_output(account: Ec2Account, params: Params) -> Answer:
    """What the machine printed, as far as a test says; empty in the minutes after the launch."""
    (instance,) = _named(account.seen_after(account.timings.describe_lag), [params["InstanceId"]])
    output = base64.b64encode(account.consoles.get(instance.id, b"")).decode()
    return {"InstanceId": instance.id, "Output": output}


def create_tags(account: Ec2Account, params: Params) -> Answer:
    tags = as_dict(params["Tags"])
    named: list[dict[str, str]] = []
    for id in params["Resources"]:
        if id in account.templates:
            named.append(account.templates[id].tags)
        else:
            named += [instance.tags for instance in _named(account.instances, [id])]
    for each in named:
        each.update(tags)
    return {}


def _named(known: dict[str, Ec2Instance], ids: Sequence[str]) -> list[Ec2Instance]:
    for id in ids:
        if not re.fullmatch(r"i-[0-9a-f]{8,17}", id):
            raise Ec2Refusal("InvalidInstanceID.Malformed", f'Invalid id: "{id}"')
    if missing := [id for id in ids if id not in known]:
        many = len(missing) > 1
        named = f"The instance ID{'s' if many else ''} '{', '.join(missing)}'"
        raise Ec2Refusal("InvalidInstanceID.NotFound", f"{named} {'do' if many else 'does'} not exist")
    return [known[id] for id in dict.fromkeys(ids)]


def _values(account: Ec2Account, instance: Ec2Instance, name: str) -> Sequence[str] | None:
    match name:
        case "instance-id":
            return [instance.id]
        case "instance-state-name":
            return [account.state_of(instance)]
        case "instance-type":
            return [instance.kind.name]
        case "availability-zone":
            return [instance.subnet.zone]
        case "subnet-id":
            return [instance.subnet.id]
        case "image-id":
            return [instance.data["ImageId"]]
        case "client-token":
            return [instance.client_token]
        case "instance-lifecycle":
            return [SPOT] if instance.market == SPOT else []
        case _:
            return tag_values(instance.tags, name)


def _state(name: str) -> dict[str, Any]:
    return {"Code": STATE_CODES[name], "Name": name}


def _shown(account: Ec2Account, instance: Ec2Instance) -> dict[str, Any]:
    data = instance.data
    shown: dict[str, Any] = {
        "InstanceId": instance.id,
        "ImageId": data["ImageId"],
        "InstanceType": instance.kind.name,
        "Architecture": instance.kind.architecture,
        "State": _state(account.state_of(instance)),
        "LaunchTime": instance.launched_at,
        "Placement": {"AvailabilityZone": instance.subnet.zone, "Tenancy": "default"},
        "SubnetId": instance.subnet.id,
        "VpcId": VPC,
        "ClientToken": instance.client_token,
        "CpuOptions": {"CoreCount": max(1, instance.kind.vcpus // 2), "ThreadsPerCore": min(2, instance.kind.vcpus)},
        "SecurityGroups": [{"GroupId": id, "GroupName": id} for id in data.get("SecurityGroupIds", [SECURITY_GROUP])],
        "MetadataOptions": projected(data.get("MetadataOptions", {}), ec2_shape("InstanceMetadataOptionsResponse")),
        "Tags": as_list(instance.tags),
    }
    if data.get("IamInstanceProfile"):
        shown["IamInstanceProfile"] = {"Arn": PROFILE_ARN, "Id": "AIPAC10D0000000000001"}
    if instance.market == SPOT:
        shown["InstanceLifecycle"] = SPOT
    if instance.end_reason:
        message = REASONS.get(instance.end_reason, instance.end_reason)
        shown["StateReason"] = {"Code": instance.end_reason, "Message": f"{instance.end_reason}: {message}"}
    return shown
