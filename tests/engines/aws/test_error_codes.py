"""EC2's error codes: each asks for one reaction, whether it comes as an error or inside an answer."""

import pytest

from bullpen.engines.aws.ec2 import error_codes
from bullpen.errors import BullpenError, ConfigError, InsufficientCapacity, PermissionDenied, Refused, Throttled
from bullpen.model.fleet import Cause

SORTED = {
    Cause.CAPACITY: (
        "InsufficientInstanceCapacity UnfulfillableCapacity InsufficientHostCapacity InsufficientFreeAddressesInSubnet"
        " ReservationCapacityExceeded SpotMaxPriceTooLow Unsupported InvalidFleetConfiguration"
    ),
    Cause.QUOTA: (
        "VcpuLimitExceeded MaxSpotInstanceCountExceeded InstanceLimitExceeded MaxFleetCountExceeded"
        " MaxSpotFleetRequestCountExceeded TargetCapacityLimitExceededException"
    ),
    Cause.THROTTLE: "RequestLimitExceeded EC2ThrottledException",
    Cause.PERMISSION: (
        "UnauthorizedOperation AuthFailure AuthFailure.ServiceLinkedRoleCreationNotPermitted AuthFailure.SomethingNew"
    ),
    Cause.CONFIGURATION: (
        "InvalidLaunchTemplateId.NotFound InvalidLaunchTemplateName.NotFoundException InvalidAMIID.NotFound"
        " InvalidSubnetID.NotFound InvalidUserData.Malformed IdempotentParameterMismatch InvalidParameterValue"
    ),
}
RAISED: dict[Cause, type[BullpenError]] = {
    Cause.CAPACITY: InsufficientCapacity,
    Cause.QUOTA: Refused,
    Cause.THROTTLE: Throttled,
    Cause.PERMISSION: PermissionDenied,
    Cause.CONFIGURATION: ConfigError,
}
ALL = [(code, cause) for cause, listed in SORTED.items() for code in listed.split()]


@pytest.mark.parametrize(("code", "cause"), ALL)
def test_a_code_inside_an_answer_has_its_cause_and_a_remedy(code: str, cause: Cause) -> None:
    error = error_codes.fleet_error({"ErrorCode": code, "ErrorMessage": "as EC2 says"})
    assert (error.code, error.message, error.cause) == (code, "as EC2 says", cause)
    assert error.remedy.endswith(".")


@pytest.mark.parametrize(("code", "cause"), ALL)
def test_a_call_that_fails_so_names_the_call_the_code_and_what_ec2_says(code: str, cause: Cause) -> None:
    refusal = error_codes.refusal("CreateFleet", code, "as EC2 says")
    assert type(refusal) is RAISED[cause]
    assert str(refusal) == f"EC2 CreateFleet: {code}: as EC2 says"
    assert refusal.remedy.endswith(".")


def test_an_unknown_code_decides_nothing() -> None:
    assert error_codes.fleet_error({"ErrorCode": "Novelty"}).cause is Cause.OTHER
    assert error_codes.refusal("CreateFleet", "Novelty", "") is None


def test_an_error_without_a_code_is_read_all_the_same() -> None:
    assert error_codes.fleet_error({}).cause is Cause.OTHER


@pytest.mark.parametrize(
    "message",
    [
        "Value (ci) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
        "Invalid IAM Instance Profile ARN",
    ],
)
def test_a_profile_that_is_not_known_yet_is_a_matter_of_permission(message: str) -> None:
    cause, remedy = error_codes.judged("InvalidParameterValue", message)
    assert cause is Cause.PERMISSION
    assert "aws.instance-profile" in remedy


def test_two_subnets_of_one_zone_are_a_matter_of_configuration() -> None:
    cause, remedy = error_codes.judged(
        "InvalidFleetConfig", "The fleet configuration contains duplicate instance pools."
    )
    assert cause is Cause.CONFIGURATION
    assert "one subnet for each availability zone" in remedy


def test_a_type_that_one_zone_does_not_sell_is_a_matter_of_capacity() -> None:
    message = "Your requested instance type (c7g.large) is not supported in your requested Availability Zone."
    assert error_codes.judged("InvalidFleetConfiguration", message)[0] is Cause.CAPACITY


def test_the_quotas_of_on_demand_and_spot_have_different_remedies() -> None:
    on_demand, spot = (
        error_codes.judged("VcpuLimitExceeded", "")[1],
        error_codes.judged("MaxSpotInstanceCountExceeded", "")[1],
    )
    assert "Running On-Demand Standard" in on_demand
    assert "All Standard Spot" in spot
    assert "separate" in on_demand
    assert "separate" in spot


def test_the_encoded_part_of_a_denial_is_not_shown() -> None:
    said = "You are not authorized. Encoded authorization failure message: " + "aB3x" * 300
    assert str(error_codes.refusal("CreateFleet", "UnauthorizedOperation", said)).endswith("You are not authorized.")
