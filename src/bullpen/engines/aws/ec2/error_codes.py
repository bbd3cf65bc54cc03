"""EC2's error codes, sorted by the reaction that they ask for, each with what a person can do about it.

The same codes arrive in two ways: as the failure of a call, and inside the answer of a fleet request that succeeded
otherwise. Both are judged here, so that neither way is treated better than the other.
"""

import re
from collections.abc import Mapping
from typing import Any

from bullpen.errors import BullpenError, ConfigError, InsufficientCapacity, PermissionDenied, Refused, Throttled
from bullpen.model.fleet import Cause, FleetError

RETRY_AFTER = 2.0
"""Seconds: EC2 refills its request buckets by a few a second, and says nothing about when."""

TEMPLATE_MISSING = ("InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound")

_OTHER_POOLS = (
    "Allow more instance types (allowed-instance-types), add subnets of other availability zones (aws.subnets), or set"
    " spot-fallback or attempts for the class."
)
_ADDRESSES = "Use larger subnets, or add some of other availability zones, in aws.subnets."
_ZONES = "Name one subnet for each availability zone in aws.subnets, not two of the same."
_NO_TYPE = "Allow more instance types, or ask for fewer cpu or less mem: no type on sale is what the class asks for."
_ON_DEMAND_QUOTA = (
    "Ask AWS for more 'Running On-Demand Standard instances' (Service Quotas, counted in vCPUs), or release runners."
    " The quota of spot is separate: --usage-class spot may have room."
)
_SPOT_QUOTA = (
    "Ask AWS for more 'All Standard Spot Instance Requests' (Service Quotas, counted in vCPUs), or release runners."
    " The quota of on-demand is separate: --usage-class on-demand may have room."
)
_FLEET_QUOTA = "Ask AWS for a higher EC2 Fleet quota (Service Quotas), or ask for fewer runners at once."
_SLOWER = "Wait a little: the account makes too many EC2 requests. AWS raises the limits on request."
_POLICY = "Allow the call to these credentials: `bullpen iam-policy control-plane` prints what they need."
_LAUNCH = (
    "These credentials may claim warm machines and launch none. Have enough of them warm (idle-target of the class), or"
    " provision through `bullpen serve`. A workflow that is trusted like the control plane may launch itself: `bullpen"
    " iam-policy workflow --launch` prints what it needs, and `bullpen iam-policy control-plane` what all others need."
)
_LAUNCHING = ("CreateFleet", "CreateLaunchTemplate", "DescribeLaunchTemplateVersions")
"""What a provision calls to launch, first the look at the template: denied that, it is denied the rest."""
_LINKED_ROLE = (
    "Create the service-linked role once: `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`"
    " for spot, `ec2fleet.amazonaws.com` for fleets."
)
_SIGN_IN = "Sign in again, or correct the credentials: AWS could not verify them."
_PROFILE = (
    "Check aws.instance-profile, and that iam:PassRole is allowed for its role. A new profile takes up to a minute"
    " to be known everywhere."
)
_TEMPLATE = "Run `bullpen refresh`, which creates the launch templates; with aws.manage = external, apply Terraform."
_IMAGE = "Correct aws.image, or the class's own image: it must be an AMI of this region that the account may use."
_SUBNET = "Correct aws.subnets: each must exist in this region."
_GROUP = "Correct aws.security-groups: each must exist in the VPC of the subnets."
_USER_DATA = "Shorten agent.pre-runner-script, and run `bullpen refresh`."
_TOKEN = "The settings changed between two tries of one request: provision again."
_VALUE = "Correct what EC2 names, in the [aws] settings or the class, and run `bullpen doctor`."

_KNOWN: dict[Cause, dict[str, str]] = {
    Cause.CAPACITY: {
        "InsufficientInstanceCapacity": _OTHER_POOLS,
        "UnfulfillableCapacity": _OTHER_POOLS,
        "InsufficientHostCapacity": _OTHER_POOLS,
        "InsufficientFreeAddressesInSubnet": _ADDRESSES,
        "ReservationCapacityExceeded": _OTHER_POOLS,
        "SpotMaxPriceTooLow": _OTHER_POOLS,
        # A type that this availability zone does not sell: others may.
        "Unsupported": _OTHER_POOLS,
        "InvalidFleetConfiguration": _OTHER_POOLS,
    },
    Cause.QUOTA: {
        "VcpuLimitExceeded": _ON_DEMAND_QUOTA,
        "InstanceLimitExceeded": _ON_DEMAND_QUOTA,
        "MaxSpotInstanceCountExceeded": _SPOT_QUOTA,
        "MaxFleetCountExceeded": _FLEET_QUOTA,
        "MaxSpotFleetRequestCountExceeded": _FLEET_QUOTA,
        "TargetCapacityLimitExceededException": _FLEET_QUOTA,
    },
    Cause.THROTTLE: {
        "RequestLimitExceeded": _SLOWER,
        "EC2ThrottledException": _SLOWER,
        "Throttling": _SLOWER,
        "ThrottlingException": _SLOWER,
    },
    Cause.PERMISSION: {
        "UnauthorizedOperation": _POLICY,
        "AccessDenied": _POLICY,
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted": _LINKED_ROLE,
        "AuthFailure": _SIGN_IN,
    },
    Cause.CONFIGURATION: {
        **dict.fromkeys(TEMPLATE_MISSING, _TEMPLATE),
        "InvalidLaunchTemplateId.VersionNotFound": _TEMPLATE,
        "InvalidAMIID.NotFound": _IMAGE,
        "InvalidAMIID.Malformed": _IMAGE,
        "InvalidAMIID.Unavailable": _IMAGE,
        "InvalidSubnetID.NotFound": _SUBNET,
        "InvalidSubnetId.Malformed": _SUBNET,
        "InvalidGroup.NotFound": _GROUP,
        "InvalidGroupId.Malformed": _GROUP,
        "InvalidUserData.Malformed": _USER_DATA,
        "IdempotentParameterMismatch": _TOKEN,
        "InvalidFleetConfig": _VALUE,
        "InvalidParameterValue": _VALUE,
        "InvalidParameter": _VALUE,
        "InvalidParameterCombination": _VALUE,
        "InvalidInput": _VALUE,
        "MissingParameter": _VALUE,
    },
}
_BY_CODE = {code: (cause, remedy) for cause, codes in _KNOWN.items() for code, remedy in codes.items()}

CAPACITY = frozenset(_KNOWN[Cause.CAPACITY])

_BY_MESSAGE = (
    # One code has several causes: only EC2's message distinguishes them.
    ("InvalidParameterValue", r"instance.?profile", Cause.PERMISSION, _PROFILE),
    ("InvalidFleetConfig", r"duplicate instance pools|same availability zone", Cause.CONFIGURATION, _ZONES),
    ("Invalid", r"no instance types?\b.*(match|satisf|meet)", Cause.CONFIGURATION, _NO_TYPE),
)
_ENCODED = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
_SHOWN = 400


def judged(code: str, message: str) -> tuple[Cause, str]:
    """Which reaction a code asks for, and the remedy."""
    for begin, pattern, cause, remedy in _BY_MESSAGE:
        if code.startswith(begin) and re.search(pattern, message, re.IGNORECASE):
            return cause, remedy
    family = code.partition(".")[0]
    return _BY_CODE.get(code) or _BY_CODE.get(family) or (Cause.OTHER, "")


def fleet_error(error: Mapping[str, Any]) -> FleetError:
    """An entry of `Errors` in the answer to CreateFleet."""
    code, message = error.get("ErrorCode", "Unknown"), _shown(error.get("ErrorMessage", ""))
    cause, remedy = judged(code, message)
    return FleetError(code, message, cause, _LAUNCH if remedy is _POLICY else remedy)


def refusal(operation: str, code: str, message: str) -> BullpenError | None:
    """The error to raise for a call that failed so; None for a code that means nothing in particular here."""
    message = _shown(message)
    cause, remedy = judged(code, message)
    if remedy is _POLICY and operation in _LAUNCHING:
        remedy = _LAUNCH
    said = f"EC2 {operation}: {code}: {message}"
    match cause:
        case Cause.CAPACITY:
            return InsufficientCapacity(said, remedy=remedy)
        case Cause.QUOTA:
            return Refused(said, remedy=remedy)
        case Cause.THROTTLE:
            return Throttled(said, retry_after=RETRY_AFTER, remedy=remedy)
        case Cause.PERMISSION:
            return PermissionDenied(said, remedy=remedy)
        case Cause.CONFIGURATION:
            return ConfigError(said, remedy=remedy)
        case Cause.OTHER:
            return None


def _shown(message: str) -> str:
    """Without the encoded part, which is long, opaque, and reveals more about the account than belongs into a log."""
    return _ENCODED.sub("", message)[:_SHOWN]
