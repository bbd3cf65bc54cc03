"""Boot failures: a machine without an agent reports why, in an item of its own partition.

The partition's name ends with the machine's ARN, which the control plane and the machine both compute, and which IAM
puts into the policy in place of `CALLER`. So a machine writes this partition and no other.
"""

BOOT_FAILURE = "BootFailure"
CALLER = "${ec2:SourceInstanceARN}"
"""The machine whose credentials sign a request, as a policy names it. IAM takes it from the credentials themselves."""
ITEM = "boot"
"""The only id in such a partition: a machine boots once."""
ATTRIBUTES = ("PK", "SK", "text", "updatedAt", "ttl")
"""All attributes of the item. With others a machine could put itself into the indexes of the pool."""

_PARTITIONS = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))


def partition_of(region: str) -> str:
    return next((name for prefix, name in _PARTITIONS if region.startswith(prefix)), "aws")


def machine_arn(region: str, account: str, instance_id: str) -> str:
    return f"arn:{partition_of(region)}:ec2:{region}:{account}:instance/{instance_id}"


def failure_kind(arn: str) -> str:
    """The kind of the item, by the ARN of its machine or by `CALLER`."""
    return f"{BOOT_FAILURE}#{arn}"
