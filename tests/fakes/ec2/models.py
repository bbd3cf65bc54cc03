"""botocore's own descriptions of the services that are played here; loading them is slow, so once per process."""

from functools import cache
from typing import Any

import botocore.session

SERVICES = {"ec2": "ec2", "sts": "sts", "iam": "iam", "servicequotas": "service-quotas"}
"""Name in a signature's scope → name of the description."""


@cache
def service_model(signing_name: str) -> Any:
    return botocore.session.get_session().get_service_model(SERVICES[signing_name])


def ec2_shape(name: str) -> Any:
    return service_model("ec2").shape_for(name)
