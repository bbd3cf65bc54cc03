"""One call to EC2, and its errors in words that fit EC2."""

from collections.abc import Collection
from typing import Any

from botocore.exceptions import ClientError

from bullpen.engines.aws.ec2 import error_codes
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError


async def ask(cloud: Cloud, method: str, /, *, expecting: Collection[str] = (), **request: Any) -> dict[str, Any]:
    """Call EC2, such as `ask(cloud, "create_fleet", Type="instant")`. Raise Declined for the codes in `expecting`."""
    client = await cloud.client("ec2")
    # More specific than the client's own handler, so heard first; to register it again changes nothing.
    client.meta.events.register("needs-retry.ec2.CreateFleet", _is_final, unique_id="bullpen-capacity")
    try:
        return await call(client, method, expecting=expecting, **request)
    except BullpenError as error:
        if not isinstance(error.__cause__, ClientError):
            raise
        told = error.__cause__.response.get("Error", {})
        operation = client.meta.method_to_api_mapping[method]
        refusal = error_codes.refusal(operation, told.get("Code", ""), told.get("Message", ""))
        raise refusal or error from error.__cause__


def _is_final(response: tuple[Any, dict[str, Any]] | None = None, **_: Any) -> bool | None:
    """False: no repeat. EC2 says "no capacity" with the status of a fault of its own, which the client would repeat;
    whether to ask again, and for what, is the caller's decision."""
    code = response[1].get("Error", {}).get("Code", "") if response else ""
    return False if code in error_codes.CAPACITY else None
