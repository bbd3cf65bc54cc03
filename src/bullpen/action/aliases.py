"""Inputs of other actions: which input of Bullpen each one is, or what to do instead if it is not supported.

An input never has another meaning than in its own action: it is another name of an input, asks for something that
Bullpen does anyway, or is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bullpen.action.input_specs import MACHULAV, NAMECHEAP, NEXT_CHAPTER, OMSF

Values = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Alias:
    """`means` is the input of Bullpen; `values` maps values to inputs; `same` are values that Bullpen does anyway.

    Any other value is refused with the remedy `instead`. If there is none, every value is accepted, and `why` says why
    it has no effect.
    """

    name: str
    actions: tuple[str, ...]
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
_CREDENTIALS = "Run aws-actions/configure-aws-credentials before this step: credentials come from the environment."
_ROLE = "Set role-to-assume of aws-actions/configure-aws-credentials before this step."
_VERSION = "Install the runner in the image, or set github.runner-url and github.runner-sha256 in a bullpen.toml."
_VOLUME = "Use volume-size for the size of the root volume. The image decides everything else."
_IMAGE = "Set ami to the id of the image."
_ZONES = "Set subnet-ids to one subnet per zone: every fleet uses all of them."
_JIT = 'Set github.registration = "jit" in the server\'s settings.'
_GROUP = "Set github.runner-group in a bullpen.toml."
_WAITS = "runners signal when they are ready"
_WHOLE_LABEL = "release gives back all runners of the label"
_LOG = "the log always shows what the step waits for"

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
        instead="Use `bullpen why` to find the cause: a failed provision always gives everything back.",
    ),
    Alias("http-tokens", (NAMECHEAP,), same=("required",), instead="Remove it: machines accept only IMDSv2."),
    Alias(
        "metadata-options",
        (MACHULAV,),
        same=("{}",),
        instead="Remove it: machines accept only IMDSv2, with a hop limit of 1.",
    ),
    Alias(
        "encrypt-ebs",
        (NAMECHEAP,),
        same=("false",),
        instead="Turn on EBS encryption by default for the account and region; it applies to every machine.",
    ),
    Alias(
        "architecture",
        (NAMECHEAP,),
        same=("x64",),
        instead="Set ami to an image of that architecture, and allowed-instance-types to its types.",
    ),
    Alias("runner-version", (NAMECHEAP,), instead=_VERSION),
    Alias(
        "max-age-minutes",
        (NAMECHEAP,),
        instead="Set idle-time-sec: an idle runner is ended after this time.",
    ),
    Alias("debug", (NAMECHEAP,), why=_LOG),
    Alias("runner-debug", (MACHULAV,), why=_LOG),
    Alias("ec2-image-filters", (NAMECHEAP,), same=("[]",), instead=_IMAGE),
    Alias("ec2-image-owner", (NAMECHEAP,), instead=_IMAGE),
    Alias(
        "eip-allocation-id",
        (NAMECHEAP,),
        instead="Use a NAT gateway in the runners' subnets: the machines of a pool have no fixed address.",
    ),
    Alias(
        "spot-max-price",
        (NAMECHEAP,),
        instead="Remove it: spot machines cost at most the on-demand price, and a lower limit is not supported.",
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
        instead="Use Session Manager, with permissions in the instance profile: machines have no SSH key.",
    ),
    Alias("startup-quiet-period-seconds", (MACHULAV,), why=_WAITS),
    Alias("startup-retry-interval-seconds", (MACHULAV,), why=_WAITS),
    Alias("run-runner-as-service", (MACHULAV,), why="the agent restarts the runner if it ends"),
    Alias("run-runner-as-user", (MACHULAV,), instead="Remove it: jobs run as their own user, never as root."),
    Alias("availability-zones-config", (MACHULAV,), instead=_ZONES),
    Alias("packages", (MACHULAV,), same=("[]",), instead="Install them in the image, or in pre-runner-script."),
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
    Alias("aws_home_dir", (OMSF,), why="jobs have their own directory"),
    Alias("aws_iam_role", (OMSF,), instead=_ROLE),
    Alias(
        "extra_gh_labels",
        (OMSF,),
        instead="Use the output `label`, the only label of the runners; label-by selects its parts.",
    ),
    Alias("repo", (OMSF,), instead="Remove it: the runners serve the repository of the workflow."),
    Alias("gh_timeout", (OMSF,), instead="Use startup-timeout-minutes, in minutes."),
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
        instead="Remove it: arguments of the runner cannot be changed.",
    ),
    Alias(
        "github_job_start_ttl_seconds",
        (NEXT_CHAPTER,),
        same=("0",),
        instead="Use max-runtime-min: it limits how long a run holds its runners, with or without jobs.",
    ),
    Alias("github_api_retry_delay", (NEXT_CHAPTER,), why="GitHub's headers say when to retry"),
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
