"""Tags: a list of pairs on the wire, a dictionary here."""

from collections.abc import Iterable
from typing import Any

from fakes.ec2.refusal import Ec2Refusal, invalid

MOST_TAGS = 50


def tags_of(params: dict[str, Any], resource_type: str) -> dict[str, str]:
    """What the TagSpecifications of a request or a template say for one kind of resource."""
    found: dict[str, str] = {}
    for specification in params.get("TagSpecifications", []):
        if specification.get("ResourceType") == resource_type:
            found |= as_dict(specification.get("Tags", []))
    return found


def as_dict(pairs: Iterable[dict[str, str]]) -> dict[str, str]:
    tags = {pair["Key"]: pair.get("Value", "") for pair in pairs}
    if len(tags) > MOST_TAGS:
        raise Ec2Refusal("TagLimitExceeded", f"at most {MOST_TAGS} tags are allowed")
    for key, value in tags.items():
        if key.startswith("aws:"):
            raise invalid(f"Tag keys starting with 'aws:' are reserved for internal use: {key}")
        if not 1 <= len(key) <= 127 or len(value) > 255:
            raise invalid(f"Tag {key!r}: a key has 1 to 127 characters, a value up to 255")
    return tags


def as_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
