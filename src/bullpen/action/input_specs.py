"""The inputs of the action: name, description, allowed values, modes, and the actions that have the same input.

`action.yml` and the tables of docs/migration.md are generated from here. Inputs of the archived original keep their
meaning. Inputs of other actions are here if they mean the same in Bullpen, else in `aliases.py`.
"""

from collections.abc import Mapping
from functools import partial

from bullpen.action.input_types import InputType, classes, flag, one_of, tags, text, waiting, whole, words
from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits

BULLPEN = "Bullpen"
ORIGINAL = "fleet-actions/ec2-runner-pool-manager"
MACHULAV = "machulav/ec2-github-runner"
NAMECHEAP = "namecheap/ec2-github-runner"
OMSF = "omsf/start-aws-gha-runner"
NEXT_CHAPTER = "NextChapterSoftware/ec2-action-builder"
ACTIONS = (ORIGINAL, MACHULAV, NAMECHEAP, OMSF, NEXT_CHAPTER)

PROVISION, RELEASE, REFRESH, ECHO = "provision", "release", "refresh", "echo"
MODES: Mapping[str, str] = {
    PROVISION: PROVISION,
    RELEASE: RELEASE,
    REFRESH: REFRESH,
    ECHO: ECHO,
    "start": PROVISION,
    "stop": RELEASE,
    "cleanup": REFRESH,
}
NO_MODES: Mapping[str, str] = {
    "resume": "Use provision: it reuses released runners, which stay warm for a while.",
    "pause": "Use release: the runner goes back to the pool, and is ended if no run takes it.",
}
EVERY = (PROVISION, RELEASE, REFRESH)
AWS_ID = "{}-[0-9a-f]{{8,17}}"


@dataclass(frozen=True, slots=True)
class Input:
    """`modes` are those that use the input. `machine`: it describes the machines, which a server's settings do.
    `actions` have the same input."""

    name: str
    description: str
    type: InputType
    modes: tuple[str, ...] = EVERY
    actions: tuple[str, ...] = (ORIGINAL,)
    machine: bool = False
    secret: bool = False


_machine = partial(Input, machine=True)
_INPUTS = (
    Input(
        "mode",
        "Mode: provision, release or refresh. Also start (provision), stop (release) and cleanup (refresh).",
        text(f"one of {', '.join(MODES)}", "|".join((*MODES, *NO_MODES))),
        actions=(ORIGINAL, MACHULAV, NAMECHEAP),
    ),
    # ---- where the pool is
    Input(
        "server",
        "URL of `bullpen serve`. The job then needs no AWS credentials: it authenticates with its OIDC token.",
        text("an https:// or http:// URL without credentials and query", r"https?://[^/?#@\s]+(/[^?#@\s]*)?"),
        actions=(BULLPEN,),
    ),
    Input(
        "server-token",
        "Token from `bullpen token create`, instead of the job's OIDC token.",
        text("a token without spaces", r"[!-~]{1,4096}"),
        actions=(BULLPEN,),
        secret=True,
    ),
    Input(
        "audience",
        "Audience of the job's OIDC token; must equal the server's github.oidc-audience [bullpen].",
        text("a text without spaces", r"[!-~]{1,255}"),
        actions=(BULLPEN,),
    ),
    Input(
        "config",
        "Path of a bullpen.toml, for a pool without a server. No file is read unless you name one.",
        text("the path of a file"),
        actions=(BULLPEN,),
    ),
    Input(
        "home",
        "Directory of a pool on this machine, without a server.",
        text("the path of a directory"),
        actions=(BULLPEN,),
    ),
    Input(
        "table-name",
        "Name of the DynamoDB table of a pool on AWS, also the prefix of its queues and templates.",
        text("3 to 32 letters, digits and dashes, the first a letter", "[A-Za-z][A-Za-z0-9-]{2,31}"),
    ),
    Input(
        "aws-region",
        "Region of the pool on AWS [AWS_REGION].",
        text("the name of a region, such as eu-central-1", "[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}"),
    ),
    # ---- the machines: refresh publishes these inputs in the table, where provision and release find them
    _machine(
        "ami",
        "AMI of the machines: Amazon Linux 2023 or Ubuntu.",
        text("the id of an AMI, such as ami-0123456789abcdef0", AWS_ID.format("ami")),
    ),
    _machine(
        "iam-instance-profile",
        "Name or ARN of the instance profile of the machines.",
        text("the name or ARN of an instance profile", r"[\w+=,.@:/-]{1,320}"),
    ),
    _machine(
        "security-group-ids",
        "Security groups of the machines, separated by spaces.",
        words("ids such as sg-0123456789abcdef0", AWS_ID.format("sg")),
    ),
    _machine(
        "subnet-ids",
        "Subnets of the machines, separated by spaces; best one per availability zone.",
        words("ids such as subnet-0123456789abcdef0", AWS_ID.format("subnet")),
    ),
    Input(
        "github-token",
        "GitHub token with which refresh gets registration tokens for runners.",
        text("a token without spaces", r"[!-~]{1,4096}"),
        actions=(ORIGINAL, MACHULAV, NAMECHEAP),
        secret=True,
    ),
    _machine(
        "github-reg-token-refresh-min",
        "Age in minutes at which a registration token is replaced [30].",
        whole(1, 59, "minutes"),
        (REFRESH,),
    ),
    _machine(
        "idle-time-sec",
        "Seconds that an idle runner stays in the pool [300].",
        whole(1, 7 * 86400, "seconds"),
        (REFRESH,),
    ),
    Input(
        "max-runtime-min",
        "Minutes that a run may hold its runners [30, or the value of the last refresh; with server, its setting].",
        whole(1, limits.RUNTIME_MINUTES, "minutes"),
        (PROVISION, REFRESH),
    ),
    _machine(
        "pre-runner-script",
        "Shell script that a machine runs once, as root, before its first job. No secrets: refresh publishes it.",
        text("a shell script"),
        actions=(ORIGINAL, MACHULAV),
    ),
    _machine("resource-class-config", "Resource classes as JSON: name → minimum cpu and mmem (MiB).", classes()),
    _machine(
        "aws-resource-tags",
        "Tags of machines and volumes, as a JSON list of Key and Value.",
        tags(),
        actions=(MACHULAV, NAMECHEAP),
    ),
    _machine(
        "runner-home-dir",
        "Directory of GitHub's runner in the image [/opt/actions-runner].",
        text("an absolute path", r"/[^\s]*"),
        actions=(MACHULAV,),
    ),
    _machine(
        "volume-size",
        "Size of the root volume in GiB; 0 for the size in the image.",
        whole(0, 16384, "GiB"),
        actions=(NAMECHEAP,),
    ),
    _machine(
        "ec2-device-name",
        "Device name of the root volume in the image [/dev/xvda].",
        text("a device name, such as /dev/xvda", "/dev/[a-z0-9]{1,16}"),
        actions=(MACHULAV,),
    ),
    _machine(
        "startup-timeout-minutes",
        "Minutes until a new machine must be registered [3].",
        whole(1, 10, "minutes"),
        actions=(MACHULAV,),
    ),
    _machine(
        "spot-fallback",
        "Without spot capacity: on-demand launches on-demand machines, fail fails [fail]. In refresh for all classes.",
        one_of("on-demand", "fail"),
        actions=(NAMECHEAP,),
    ),
    # ---- what a run asks for
    Input("instance-count", "Number of runners [1].", whole(1, limits.COUNT), (PROVISION,)),
    Input(
        "usage-class",
        "Purchase option: spot or on-demand [with server or start on-demand, else spot].",
        one_of("spot", "on-demand"),
        (PROVISION,),
    ),
    Input(
        "allowed-instance-types",
        "Patterns of instance types, separated by spaces; * matches any characters [with server *, else c* m* r*].",
        words("patterns such as c* or m7g.large", limits.TYPE_PATTERN),
        (PROVISION,),
    ),
    Input(
        "resource-class",
        "Resource class of the runners [with server small, else large].",
        text("1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit", limits.CLASS_NAME),
    ),
    Input("allow-partial", "Accept fewer runners than requested [false].", flag(), (PROVISION,), (NAMECHEAP,)),
    Input(
        "wait",
        "Time to wait for room if the pool is full, such as 10m; no runner is held meanwhile [fail at once].",
        waiting(),
        (PROVISION,),
        (BULLPEN,),
    ),
    Input(
        "label-by",
        "Parts of the label: run, attempt, class or attempt-class [run].",
        one_of("run", "attempt", "class", "attempt-class"),
        (PROVISION, RELEASE),
        (BULLPEN,),
    ),
    Input(
        "label",
        "Label whose runners to release: the output `label` of an earlier step.",
        text("a label of this run", rf"[A-Za-z0-9._-]{{1,{limits.RUN_ID_LENGTH}}}"),
        (PROVISION, RELEASE),
        (MACHULAV, NAMECHEAP),
    ),
    Input("dry-run", "Only report what refresh would do [false].", flag(), (REFRESH,), (NAMECHEAP,)),
    Input("echo", "Text that mode echo prints.", text(), (ECHO,)),
)
INPUTS: Mapping[str, Input] = {one.name: one for one in _INPUTS}
OUTPUTS: Mapping[str, str] = {
    "label": "Label of the runners, for runs-on.",
    "instance-ids": "Instance ids of the runners, as a JSON list.",
    "selected": "Number of runners reused from the pool.",
    "created": "Number of runners launched for this run.",
    "duration": "Duration of the provision in seconds.",
    "ids": "Same as instance-ids.",
    "id": "First of instance-ids.",
    "ec2-instance-ids": "Same as instance-ids.",
    "ec2-instance-id": "Same as id.",
}
