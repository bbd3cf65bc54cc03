"""One call to EC2, and its errors in words that fit EC2."""

from collections.abc import Collection
from typing import Any

from bullpen.engines.aws import codes
from bullpen.engines.aws.errors import Declined, call
from bullpen.engines.aws.session import Cloud


async def ask(cloud: Cloud, method: str, /, *, expecting: Collection[str] = (), **request: Any) -> dict[str, Any]:
    """Call EC2, such as `ask(cloud, "create_fleet", Type="instant")`. Raise Declined for the codes in `expecting`."""
    client = await cloud.client("ec2")
    try:
        return await call(client, method, expecting={*codes.KNOWN, *expecting}, **request)
    except Declined as declined:
        if declined.code in expecting:
            raise
        refusal = codes.refusal(client.meta.method_to_api_mapping[method], declined.code, declined.message)
        assert refusal is not None, "every code of codes.KNOWN has its reaction"
        raise refusal from declined
