"""The words of other actions: which input of ours each one is, or why it cannot be honoured and what to do instead.

A word never means something else here than at home: it is another name of an input, asks for what is done anyway, or
is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bullpen.action.input_specs import MACHULAV, NAMECHEAP, NEXT_CHAPTER, OMSF

Values = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Alias:
    """`means` is an input of ours; `values` says it value by value; `same` are values that ask for what is done anyway.

    Whatever is none of these is refused with `instead`; without one, `why` says why any value is done anyway.
    """

    name: str
    whose: tuple[str, ...]
    means: str = ""
    values: Values = field(default_factory=dict)
    same: tuple[str, ...] = ()
    instead: str = ""
    why: str = ""
    secret: bool = False


_BOTH = (MACHULAV, NAMECHEAP)
_MARKET: Values = {"spot": {"usage-class": "spot"}, "on-demand": {"usage-class": "on-demand"}}
_STRATEGY: Values = {
    "none": {"usage-class": "on-demand"},
    "spotonly": {"usage-class": "spot", "spot-fallback": "fail"},
    "besteffort": {"usage-class": "spot", "spot-fallback": "on-demand"},
}
_CREDENTIALS = "Credentials come from the environment: run aws-actions/configure-aws-credentials before this step."
_ROLE = "Let aws-actions/configure-aws-credentials assume the role (role-to-assume) before this step."
_VERSION = "The image has the runner, or github.runner-url with github.runner-sha256 in a bullpen.toml fetches it."
_VOLUME = "Of the root volume only the size can be said: volume-size. The image decides the rest."
_IMAGE = "Name the image's id in ami."
_ZONES = "Name one subnet for each zone in subnet-ids: every fleet asks in all of them."
_JIT = 'Set github.registration = "jit" in the server\'s settings.'
_GROUP = "Set github.runner-group in a bullpen.toml."
_WAITS = "signals tell when a runner is ready, not a clock"
_WHOLE_LABEL = "all runners of the label go back"

_ALIASES = (
    # ---- machulav, namecheap
    Alias("count", (NAMECHEAP,), "instance-count"),
    Alias("market-type", _BOTH, values=_MARKET),
    Alias("max-lifetime-minutes", (NAMECHEAP,), "max-runtime-min"),
    Alias("ec2-image-id", _BOTH, "ami"),
    Alias("ec2-instance-type", _BOTH, "allowed-instance-types"),
    Alias("subnet-id", _BOTH, "subnet-ids"),
    Alias("security-group-id", _BOTH, "security-group-ids"),
    Alias("iam-role-name", _BOTH, "iam-instance-profile"),
    Alias("ec2-volume-size", (MACHULAV,), "volume-size"),
    Alias("ec2-instance-id", _BOTH, why=_WHOLE_LABEL),
    Alias("ec2-instance-ids", (NAMECHEAP,), why=_WHOLE_LABEL),
    Alias(
        "cleanup-on-start-failure",
        (NAMECHEAP,),
        same=("true",),
        instead="Nothing of a failed provision is kept; `bullpen why` tells its story.",
    ),
    Alias("http-tokens", (NAMECHEAP,), same=("required",), instead="Machines answer to IMDSv2 only."),
    Alias("metadata-options", (MACHULAV,), same=("{}",), instead="Machines answer to IMDSv2 only, one hop away."),
    Alias(
        "encrypt-ebs",
        (NAMECHEAP,),
        same=("false",),
        instead="Turn on EBS encryption by default for the account and region: it holds for every machine.",
    ),
    Alias(
        "architecture",
        (NAMECHEAP,),
        same=("x64",),
        instead="Name an image of that architecture in ami, and its types in allowed-instance-types.",
    ),
    Alias("runner-version", (NAMECHEAP,), instead=_VERSION),
    Alias(
        "max-age-minutes",
        (NAMECHEAP,),
        instead="Say in idle-time-sec how long an idle runner may wait; it is ended then.",
    ),
    Alias("debug", (NAMECHEAP,), why="the log always tells who waits for what"),
    Alias("runner-debug", (MACHULAV,), why="the log always tells who waits for what"),
    Alias("ec2-image-filters", (NAMECHEAP,), same=("[]",), instead=_IMAGE),
    Alias("ec2-image-owner", (NAMECHEAP,), instead=_IMAGE),
    Alias(
        "eip-allocation-id",
        (NAMECHEAP,),
        instead="Use a NAT gateway in the runners' subnets: a pool has no fixed address.",
    ),
    Alias(
        "spot-max-price",
        (NAMECHEAP,),
        instead="Spot machines cost at most the on-demand price; a lower cap cannot be said.",
    ),
    Alias("volume-type", (NAMECHEAP,), instead=_VOLUME),
    Alias("volume-iops", (NAMECHEAP,), instead=_VOLUME),
    Alias("volume-throughput", (NAMECHEAP,), instead=_VOLUME),
    Alias("ec2-volume-type", (MACHULAV,), instead=_VOLUME),
    Alias("block-device-mapping", (MACHULAV,), same=("[]",), instead=_VOLUME),
    Alias("block-device-mappings", (MACHULAV,), same=("[]",), instead=_VOLUME),
    Alias(
        "key-name",
        (MACHULAV,),
        instead="Nobody connects to a machine by SSH; use Session Manager with the instance profile.",
    ),
    Alias("startup-quiet-period-seconds", (MACHULAV,), why=_WAITS),
    Alias("startup-retry-interval-seconds", (MACHULAV,), why=_WAITS),
    Alias("run-runner-as-service", (MACHULAV,), why="the agent starts the runner again if it ends"),
    Alias("run-runner-as-user", (MACHULAV,), instead="Leave it out: jobs run as a user of their own, never as root."),
    Alias("availability-zones-config", (MACHULAV,), instead=_ZONES),
    Alias("packages", (MACHULAV,), same=("[]",), instead="Install them in pre-runner-script, or better in the image."),
    Alias("use-jit", (MACHULAV,), same=("false",), instead=_JIT),
    Alias("runner-group-id", (MACHULAV,), same=("1",), instead=_GROUP),
    # ---- omsf
    Alias("instance_count", (OMSF,), "instance-count"),
    Alias("aws_image_id", (OMSF,), "ami"),
    Alias("aws_image_name", (OMSF,), instead=_IMAGE),
    Alias("aws_instance_type", (OMSF,), "allowed-instance-types"),
    Alias("aws_region_name", (OMSF,), "aws-region"),
    Alias("aws_security_group_id", (OMSF,), "security-group-ids"),
    Alias("aws_subnet_id", (OMSF,), "subnet-ids"),
    Alias("aws_tags", (OMSF,), "aws-resource-tags"),
    Alias("aws_root_device_size", (OMSF,), "volume-size"),
    Alias("aws_home_dir", (OMSF,), why="jobs have a directory of their own"),
    Alias("aws_iam_role", (OMSF,), instead=_ROLE),
    Alias(
        "extra_gh_labels",
        (OMSF,),
        instead="Runners have one label, the output `label`; label-by chooses what it stands for.",
    ),
    Alias("repo", (OMSF,), instead="Runners are of the repository whose workflow runs; leave it out."),
    Alias("gh_timeout", (OMSF,), instead="Say startup-timeout-minutes instead, in minutes."),
    Alias("instance_mapping", (OMSF,), why=_WHOLE_LABEL),
    # ---- NextChapter
    Alias("aws_access_key_id", (NEXT_CHAPTER,), instead=_CREDENTIALS, secret=True),
    Alias("aws_secret_access_key", (NEXT_CHAPTER,), instead=_CREDENTIALS, secret=True),
    Alias("aws_session_token", (NEXT_CHAPTER,), instead=_CREDENTIALS, secret=True),
    Alias("aws_region", (NEXT_CHAPTER,), "aws-region"),
    Alias("aws_iam_role_arn", (NEXT_CHAPTER,), instead=_ROLE),
    Alias("github_token", (NEXT_CHAPTER,), "github-token", secret=True),
    Alias("github_action_runner_version", (NEXT_CHAPTER,), instead=_VERSION),
    Alias(
        "github_action_runner_extra_cli_args",
        (NEXT_CHAPTER,),
        instead="The runner is started as it has to be; nothing can be added.",
    ),
    Alias(
        "github_job_start_ttl_seconds",
        (NEXT_CHAPTER,),
        same=("0",),
        instead="max-runtime-min bounds how long a run holds its runners, whether jobs come or not.",
    ),
    Alias("github_api_retry_delay", (NEXT_CHAPTER,), why="GitHub's own headers say when to ask again"),
    Alias("ec2_instance_type", (NEXT_CHAPTER,), "allowed-instance-types"),
    Alias("ec2_ami_id", (NEXT_CHAPTER,), "ami"),
    Alias("ec2_iam_instance_profile", (NEXT_CHAPTER,), "iam-instance-profile"),
    Alias("ec2_instance_iam_role", (NEXT_CHAPTER,), "iam-instance-profile"),
    Alias("ec2_root_disk_size_gb", (NEXT_CHAPTER,), "volume-size"),
    Alias("ec2_root_disk_ebs_class", (NEXT_CHAPTER,), instead=_VOLUME),
    Alias("ec2_instance_tags", (NEXT_CHAPTER,), "aws-resource-tags"),
    Alias("ec2_instance_ttl", (NEXT_CHAPTER,), "max-runtime-min"),
    Alias("ec2_security_group_id", (NEXT_CHAPTER,), "security-group-ids"),
    Alias("ec2_subnet_id", (NEXT_CHAPTER,), "subnet-ids"),
    Alias("ec2_spot_instance_strategy", (NEXT_CHAPTER,), values=_STRATEGY),
)
ALIASES: Mapping[str, Alias] = {one.name: one for one in _ALIASES}
