"""Validation of the `[aws]` settings, of names derived from them, and of type patterns, before the first AWS call."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bullpen.config import ResourceClass, Settings
from bullpen.model.limits import DELAY_SECONDS, TYPE_PATTERN, TYPE_PATTERN_ALLOWED, TYPE_PATTERNS
from bullpen.settings.redaction import shortened

ENDPOINT = r"https?://[^/?#@\s]+(/[^?#\s]*)?"
SERVICES = ("dynamodb", "sqs", "ec2", "sts", "iam", "service-quotas")
REGION = r"[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}"
AMI = r"ami-[0-9a-f]{8,17}"
AMI_ALLOWED = "the id of an AMI, such as ami-0123456789abcdef0"
PROFILE = r"[\w+=,.@-]{1,128}|arn:aws[a-z-]*:iam::[0-9]{12}:instance-profile/[\w+=,.@/-]{1,256}"
ROLE = r"arn:aws[a-z-]*:iam::[0-9]{12}:role/([\w+=,.@/-]{1,512}/)?[\w+=,.@-]{1,64}"
TAGS_LIMIT = 40  # EC2 allows 50 on a resource, including Bullpen's own
TAG_TEXT = r"[\w \t+=.:/@-]"
RESERVED_TAGS = ("aws:", "bullpen:")
QUEUE_NAME_LIMIT = 80
INHERITS_LIMIT = 98  # each may have two spellings, and all of them must fit into the 4 KB of a DynamoDB expression


def impossible_types(classes: Mapping[str, ResourceClass]) -> Iterator[str]:
    """Errors in the type patterns of classes, which apply to every engine."""
    for name, kind in classes.items():
        where, patterns = f"classes.{name}.allowed-instance-types", kind.allowed_instance_types
        if not 1 <= len(patterns) <= TYPE_PATTERNS:
            yield f"{where} has {len(patterns)} patterns: must be 1 to {TYPE_PATTERNS}, such as 'c*' or 'm7g.*'"
        for pattern in _unlike(TYPE_PATTERN, patterns):
            yield f"{where} has {shortened(pattern)}: must be {TYPE_PATTERN_ALLOWED}"


def impossible_aws(settings: Settings) -> Iterator[str]:
    """Errors in the settings that the AWS engine uses."""
    aws = settings.aws
    if aws.region and not re.fullmatch(REGION, aws.region):
        yield f"aws.region ({shortened(aws.region)}) must be the name of a region, such as eu-central-1"
    yield from _impossible_machines(settings)
    if (aws.instance_role or settings.agent.serve_url) and not re.fullmatch(ROLE, aws.instance_role):
        found = f"aws.instance-role ({shortened(aws.instance_role)})"
        yield f"{found} must be the ARN of a role: with agent.serve-url, `serve` admits only machines with this role"
    yield from _impossible_endpoints(aws.endpoints)
    yield from _impossible_tags(aws.tags)
    for name in settings.classes:
        # The name of a queue encodes a dot or an underscore as three characters.
        length = len(aws.pool) + 1 + len(name) + 2 * (name.count(".") + name.count("_"))
        if length > QUEUE_NAME_LIMIT:
            limit = f"SQS allows {QUEUE_NAME_LIMIT}: shorten aws.pool ({aws.pool!r}) or the name of the class"
            yield f"classes.{name}: the name of its queue would have {length} characters, and {limit}"
    for domain, inherited in settings.trust.inherits.items():
        if (number := len(set(inherited))) > INHERITS_LIMIT:
            limit = f"must be at most {INHERITS_LIMIT}, the limit of one DynamoDB query"
            yield f"trust.inherits of {domain!r} has {number} trust domains: {limit}"
    if settings.timings.put_back > DELAY_SECONDS:
        yield f"timings.put-back ({settings.timings.put_back:g}) must be at most {DELAY_SECONDS}, the limit of SQS"


def misplaced_machines(classes: Mapping[str, ResourceClass]) -> Iterator[str]:
    """Errors in what classes say about machines of EC2, where the instances are processes of this host."""
    for name, kind in classes.items():
        for setting, value in (("image", kind.image), ("architecture", kind.architecture), ("disk", kind.disk)):
            if value:
                only = 'has a meaning with engines.pool = "aws" only: here instances are processes of this host'
                yield f"classes.{name}.{setting} ({shortened(str(value))}) {only}"


def _impossible_images(settings: Settings) -> Iterator[str]:
    aws, needed = settings.aws, 'it is required with engines.pool = "aws"'
    if (aws.image or not all(kind.image for kind in settings.classes.values())) and not re.fullmatch(AMI, aws.image):
        some = f"{needed}, unless every class names its own" if not aws.image else needed
        yield f"aws.image ({shortened(aws.image)}) must be {AMI_ALLOWED}: {some}"
    for name, kind in settings.classes.items():
        if kind.image and not re.fullmatch(AMI, kind.image):
            yield f"classes.{name}.image ({shortened(kind.image)}) must be {AMI_ALLOWED}; empty: aws.image"
    named = {kind.architecture for kind in settings.classes.values() if kind.architecture}
    if settings.github.runner_url and len(named) > 1:
        both = " and ".join(sorted(named))
        yield (
            f"github.runner-url ({shortened(settings.github.runner_url)}) is the runner of one architecture, and the"
            f" classes have {both}: leave it empty, and use images that contain the runner"
        )


def _impossible_machines(settings: Settings) -> Iterator[str]:
    aws = settings.aws
    needed = 'it is required with engines.pool = "aws"'
    yield from _impossible_images(settings)
    if not aws.subnets:
        yield f"aws.subnets ([]) must have at least one subnet, better one per availability zone: {needed}"
    if not re.fullmatch(PROFILE, aws.instance_profile):
        found = f"aws.instance-profile ({shortened(aws.instance_profile)})"
        yield f"{found} must be the name or ARN of an instance profile: {needed}"
    for name, prefix, ids in (
        ("subnets", "subnet", aws.subnets),
        ("security-groups", "sg", aws.security_groups),
    ):
        for id in _unlike(rf"{prefix}-[0-9a-f]{{8,17}}", ids):
            yield f"aws.{name} has {shortened(id)}: must be an id such as {prefix}-0123456789abcdef0"
        for id in (id for id, times in Counter(ids).items() if times > 1):
            yield f"aws.{name} has {shortened(id)} more than once"
    if not re.fullmatch(r"/dev/[a-z0-9]{1,16}", aws.root_device):
        yield f"aws.root-device ({shortened(aws.root_device)}) must be a device name, such as /dev/xvda"


def _impossible_endpoints(endpoints: Mapping[str, str]) -> Iterator[str]:
    for service, url in endpoints.items():
        if service not in SERVICES:
            yield f"aws.endpoints has {shortened(service)}: must be one of {', '.join(SERVICES)}"
        if not re.fullmatch(ENDPOINT, url):
            yield f"aws.endpoints.{service} ({shortened(url)}) must be an http:// or https:// URL without credentials"


def _impossible_tags(tags: Mapping[str, str]) -> Iterator[str]:
    if len(tags) > TAGS_LIMIT:
        yield f"aws.tags has {len(tags)} tags: must be at most {TAGS_LIMIT}"
    for key, value in tags.items():
        if key.lower().startswith(RESERVED_TAGS):
            yield f"aws.tags has {shortened(key)}: a key must not start with aws: or bullpen:"
        if not re.fullmatch(f"{TAG_TEXT}{{1,128}}", key):
            yield f"aws.tags has {shortened(key)}: a key must be 1 to 128 letters, digits, spaces and + - = . _ : / @"
        if not re.fullmatch(f"{TAG_TEXT}{{0,256}}", value):
            found = f"aws.tags.{shortened(key)} ({shortened(value)})"
            yield f"{found} must be at most 256 letters, digits, spaces and + - = . _ : / @"


def _unlike(pattern: str, texts: Sequence[str]) -> list[str]:
    return [text for text in texts if not re.fullmatch(pattern, text)]
