"""Inputs of other actions: which input of Bullpen each one is, or what to do instead if it is not supported.

An input never has another meaning than in its own action: it is another name of an input, asks for something that
Bullpen does anyway, or is refused.
"""

from collections.abc import Mapping
from dataclasses import field
from functools import partial

from bullpen.action.input_specs import MACHULAV, NAMECHEAP, NEXT_CHAPTER, OMSF
from bullpen.lazy_dataclass import dataclass

Values = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Alias:
    """`means` is the input of Bullpen; `values` maps values to inputs; `same` are values that Bullpen does anyway.

    Any other value is refused with the remedy `instead`. If there is none, every value is accepted, and `why` says why
    it has no effect.
    """

    name: str
    means: str = ""
    actions: tuple[str, ...] = ()
    values: Values = field(default_factory=dict)
    same: tuple[str, ...] = ()
    instead: str = ""
    why: str = ""
    secret: bool = False


_both = partial(Alias, actions=(MACHULAV, NAMECHEAP))
_machulav = partial(Alias, actions=(MACHULAV,))
_namecheap = partial(Alias, actions=(NAMECHEAP,))
_omsf = partial(Alias, actions=(OMSF,))
_next_chapter = partial(Alias, actions=(NEXT_CHAPTER,))
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
    _namecheap("count", "instance-count"),
    _both("market-type", values=_MARKET),
    _namecheap("max-lifetime-minutes", "max-runtime-min"),
    _both("ec2-image-id", "ami"),
    _both("ec2-instance-type", "allowed-instance-types"),
    _both("subnet-id", "subnet-ids"),
    _both("security-group-id", "security-group-ids"),
    _both("iam-role-name", "iam-instance-profile"),
    _machulav("ec2-volume-size", "volume-size"),
    _both("ec2-instance-id", why=_WHOLE_LABEL),
    _namecheap("ec2-instance-ids", why=_WHOLE_LABEL),
    _namecheap(
        "cleanup-on-start-failure",
        same=("true",),
        instead="Use `bullpen why` to find the cause: a failed provision always gives everything back.",
    ),
    _namecheap("http-tokens", same=("required",), instead="Remove it: machines accept only IMDSv2."),
    _machulav(
        "metadata-options", same=("{}",), instead="Remove it: machines accept only IMDSv2, with a hop limit of 1."
    ),
    _namecheap(
        "encrypt-ebs",
        same=("false",),
        instead="Turn on EBS encryption by default for the account and region; it applies to every machine.",
    ),
    _namecheap(
        "architecture",
        same=("x64",),
        instead="Set ami to an image of that architecture, and allowed-instance-types to its types.",
    ),
    _namecheap("runner-version", instead=_VERSION),
    _namecheap("max-age-minutes", instead="Set idle-time-sec: an idle runner is ended after this time."),
    _namecheap("debug", why=_LOG),
    _machulav("runner-debug", why=_LOG),
    _namecheap("ec2-image-filters", same=("[]",), instead=_IMAGE),
    _namecheap("ec2-image-owner", instead=_IMAGE),
    _namecheap(
        "eip-allocation-id",
        instead="Use a NAT gateway in the runners' subnets: the machines of a pool have no fixed address.",
    ),
    _namecheap(
        "spot-max-price",
        instead="Remove it: spot machines cost at most the on-demand price, and a lower limit is not supported.",
    ),
    _namecheap("volume-type", instead=_VOLUME),
    _namecheap("volume-iops", instead=_VOLUME),
    _namecheap("volume-throughput", instead=_VOLUME),
    _machulav("ec2-volume-type", instead=_VOLUME),
    _machulav("block-device-mapping", same=("[]",), instead=_VOLUME),
    _machulav("block-device-mappings", same=("[]",), instead=_VOLUME),
    _machulav(
        "key-name", instead="Use Session Manager, with permissions in the instance profile: machines have no SSH key."
    ),
    _machulav("startup-quiet-period-seconds", why=_WAITS),
    _machulav("startup-retry-interval-seconds", why=_WAITS),
    _machulav("run-runner-as-service", why="the agent restarts the runner if it ends"),
    _machulav("run-runner-as-user", instead="Remove it: jobs run as their own user, never as root."),
    _machulav("availability-zones-config", instead=_ZONES),
    _machulav("packages", same=("[]",), instead="Install them in the image, or in pre-runner-script."),
    _machulav("use-jit", same=("false",), instead=_JIT),
    _machulav("runner-group-id", same=("1",), instead=_GROUP),
    # ---- omsf
    _omsf("instance_count", "instance-count"),
    _omsf("aws_image_id", "ami"),
    _omsf("aws_image_name", instead=_IMAGE),
    _omsf("aws_instance_type", "allowed-instance-types"),
    _omsf("aws_region_name", "aws-region"),
    _omsf("aws_security_group_id", "security-group-ids"),
    _omsf("aws_subnet_id", "subnet-ids"),
    _omsf("aws_tags", "aws-resource-tags"),
    _omsf("aws_root_device_size", "volume-size"),
    _omsf("aws_home_dir", why="jobs have their own directory"),
    _omsf("aws_iam_role", instead=_ROLE),
    _omsf(
        "extra_gh_labels", instead="Use the output `label`, the only label of the runners; label-by selects its parts."
    ),
    _omsf("repo", instead="Remove it: the runners serve the repository of the workflow."),
    _omsf("gh_timeout", instead="Use startup-timeout-minutes, in minutes."),
    _omsf("instance_mapping", why=_WHOLE_LABEL),
    # ---- NextChapter
    _next_chapter("aws_access_key_id", instead=_CREDENTIALS, secret=True),
    _next_chapter("aws_secret_access_key", instead=_CREDENTIALS, secret=True),
    _next_chapter("aws_session_token", instead=_CREDENTIALS, secret=True),
    _next_chapter("aws_region", "aws-region"),
    _next_chapter("aws_iam_role_arn", instead=_ROLE),
    _next_chapter("github_token", "github-token", secret=True),
    _next_chapter("github_action_runner_version", instead=_VERSION),
    _next_chapter(
        "github_action_runner_extra_cli_args", instead="Remove it: arguments of the runner cannot be changed."
    ),
    _next_chapter(
        "github_job_start_ttl_seconds",
        same=("0",),
        instead="Use max-runtime-min: it limits how long a run holds its runners, with or without jobs.",
    ),
    _next_chapter("github_api_retry_delay", why="GitHub's headers say when to retry"),
    _next_chapter("ec2_instance_type", "allowed-instance-types"),
    _next_chapter("ec2_ami_id", "ami"),
    _next_chapter("ec2_iam_instance_profile", "iam-instance-profile"),
    _next_chapter("ec2_instance_iam_role", "iam-instance-profile"),
    _next_chapter("ec2_root_disk_size_gb", "volume-size"),
    _next_chapter("ec2_root_disk_ebs_class", instead=_VOLUME),
    _next_chapter("ec2_instance_tags", "aws-resource-tags"),
    _next_chapter("ec2_instance_ttl", "max-runtime-min"),
    _next_chapter("ec2_security_group_id", "security-group-ids"),
    _next_chapter("ec2_subnet_id", "subnet-ids"),
    _next_chapter("ec2_spot_instance_strategy", values=_STRATEGY),
)
ALIASES: Mapping[str, Alias] = {one.name: one for one in _ALIASES}
