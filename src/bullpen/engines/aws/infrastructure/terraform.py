"""The variables of the Terraform module in `deploy/terraform`: what follows from the settings and from this version.

Table, queues' attributes and policies are in the module itself. Launch templates cannot be: their names are the hashes
of their content, and that pins the agent of this version.
"""

from typing import Any

from bullpen.config import Settings
from bullpen.engines.aws.boot.userdata import own_user_data
from bullpen.engines.aws.ec2.template import desired_templates, template_tags
from bullpen.engines.aws.infrastructure.policies import place_of
from bullpen.engines.aws.sqs.schema import queue_name


def variables(settings: Settings) -> dict[str, Any]:
    """Raise ConfigError where the settings make no machine."""
    aws = settings.aws
    return {
        "pool": aws.pool,
        "image": aws.image,
        "images": list(settings.images),
        "subnets": list(aws.subnets),
        "security_groups": list(aws.security_groups),
        "instance_profile": place_of(settings).profile,
        "served": bool(settings.agent.serve_url),
        "on_github": settings.on_github,
        "queues": [queue_name(aws.pool, name) for name in settings.classes],
        "launch_templates": {
            one.name: {"tags": template_tags(aws, one), "data": one.data}
            for one in desired_templates(settings, own_user_data(settings))
        },
    }
