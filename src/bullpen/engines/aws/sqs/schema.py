"""A pool queue as data: its name, its attributes, its tag. Refresh makes it from this, Terraform is held to it.

SQS allows letters, digits, - and _ in a name: a '.' of the class is written `_2E`, and so a '_' is `_5F`. The name
alone does not say whose a queue is: `ci-x-small` may belong to the pool `ci`, to the pool `ci-x`, or to a stranger. Its
tag does.
"""

from collections.abc import Mapping

from bullpen.engines.aws.dynamodb.schema import POOL_TAG

ENCRYPTED = "SqsManagedSseEnabled"
ATTRIBUTES = {
    "MessageRetentionPeriod": str(14 * 24 * 3600),  # the longest there is, and longer than any threshold
    "VisibilityTimeout": "30",  # when a ticket is seen again whose taker died before it could delete it
    "DelaySeconds": "0",  # a ticket is on offer at once, unless its sender says otherwise
    ENCRYPTED: "true",  # with a key of SQS's own, which costs nothing and needs no permission
}


def queue_name(pool: str, resource_class: str) -> str:
    return f"{pool}-{resource_class.replace('_', '_5F').replace('.', '_2E')}"


def class_of(pool: str, name: str) -> str:
    """The resource class of a queue whose name starts with `<pool>-`."""
    return name.removeprefix(f"{pool}-").replace("_2E", ".").replace("_5F", "_")


def tags(pool: str) -> dict[str, str]:
    return {POOL_TAG: pool}


def corrections(found: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What to set so that a queue with these attributes is as it should be: its value, and why."""
    wrong = {
        name: (value, f"{name} is {found[name]} and should be {value}")
        for name, value in ATTRIBUTES.items()
        if found.get(name, value) != value  # an emulator does not know all of them
    }
    if found.get("KmsMasterKeyId"):
        wrong.pop(ENCRYPTED, None)  # encrypted with a key of the account's own: SQS takes one or the other
    if found.get("RedrivePolicy"):
        # Each taker that dies before it could delete a ticket counts as a receipt: after some, the ticket would go to
        # a queue that is not read. An empty policy is none.
        wrong["RedrivePolicy"] = ("", "it has a redrive policy, which moves tickets to another queue")
    return wrong
