"""Filters and pages, as every Describe call has them."""

import base64
import fnmatch
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from fakes.ec2.refusal import Ec2Refusal, invalid

Item = TypeVar("Item")
MOST_FILTER_VALUES = 200


def filtered(
    items: Iterable[Item], filters: Sequence[dict[str, Any]], values_of: Callable[[Item, str], Sequence[str] | None]
) -> list[Item]:
    """Items that match every filter in any of its values, where `*` and `?` stand for other text.

    `values_of` says what an item has under a filter's name, None meaning that there is no such filter.
    """
    found = list(items)
    if sum(len(one.get("Values", ())) for one in filters) > MOST_FILTER_VALUES:
        raise Ec2Refusal("FilterLimitExceeded", f"at most {MOST_FILTER_VALUES} filter values are allowed")
    for one in filters:
        name, patterns = one["Name"], one.get("Values", [])
        found = [item for item in found if _matches(_known(values_of(item, name), name), patterns)]
    return found


def tag_values(tags: dict[str, str], name: str) -> Sequence[str] | None:
    """What `tag:<key>` and `tag-key` compare with."""
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return [tags[key]] if key in tags else []
    return list(tags) if name == "tag-key" else None


def page(items: Sequence[Item], params: dict[str, Any], most: int = 1000) -> tuple[list[Item], dict[str, str]]:
    """One page and, unless it is the last, the NextToken that asks for the following one."""
    begin = _begin(params["NextToken"]) if params.get("NextToken") else 0
    size = params.get("MaxResults", most)
    if not 1 <= size <= most:
        raise invalid(f"MaxResults must be 1 to {most}")
    following = {"NextToken": _token(begin + size)} if begin + size < len(items) else {}
    return list(items[begin : begin + size]), following


def _token(begin: int) -> str:
    return base64.urlsafe_b64encode(f"from {begin}".encode()).decode()


def _begin(token: str) -> int:
    try:
        return int(base64.urlsafe_b64decode(token).decode().removeprefix("from "))
    except ValueError:
        raise Ec2Refusal("InvalidNextToken", f"{token!r} is not a token of ours") from None


def _known(values: Sequence[str] | None, name: str) -> Sequence[str]:
    if values is None:
        raise invalid(f"The filter '{name}' is invalid")
    return values


def _matches(values: Sequence[str], patterns: Sequence[str]) -> bool:
    plain = [pattern.replace("[", "[[]") for pattern in patterns]  # EC2 knows no character classes
    return any(fnmatch.fnmatchcase(value, pattern) for value in values for pattern in plain)
