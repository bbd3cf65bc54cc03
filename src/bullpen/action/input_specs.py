"""The inputs: what each is called, whose word it was, what it allows, and what it means here. Data, and nothing else.

`action.yml` declares them all, and docs/migration.md lists them, both from here. The archived original's names keep
their meaning; words that other actions brought are here if we do the same, else in `aliases.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bullpen.action.input_types import InputReader, classes, flag, one_of, tags, text, waiting, whole, words
from bullpen.model import limits

OURS = "Bullpen"
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
    "resume": "A released runner stays warm by itself for a while: use provision, which takes it again.",
    "pause": "Use release: the runner goes back to the pool, and is ended when nobody wants it.",
}
EVERY = (PROVISION, RELEASE, REFRESH)
AWS_ID = "{}-[0-9a-f]{{8,17}}"


@dataclass(frozen=True, slots=True)
class Input:
    """`modes` are those in which it says anything; `machine` if it describes machines, which a server has settled."""

    name: str
    says: str
    reads: InputReader
    modes: tuple[str, ...] = EVERY
    whose: tuple[str, ...] = (ORIGINAL,)
    machine: bool = False
    secret: bool = False


_INPUTS = (
    Input(
        "mode",
        "What to do: provision, release or refresh. Also start (provision), stop (release) and cleanup (refresh).",
        text(f"one of {', '.join(MODES)}", "|".join((*MODES, *NO_MODES))),
        whose=(ORIGINAL, MACHULAV, NAMECHEAP),
    ),
    # ---- where the pool is
    Input(
        "server",
        "URL of `bullpen serve`. Then the job needs no AWS credentials: it shows who it is.",
        text("an https:// or http:// URL without credentials and query", r"https?://[^/?#@\s]+(/[^?#@\s]*)?"),
        whose=(OURS,),
    ),
    Input(
        "server-token",
        "A token of `bullpen token create`, instead of the job's own identity.",
        text("a token without spaces", r"[!-~]{1,4096}"),
        whose=(OURS,),
        secret=True,
    ),
    Input(
        "audience",
        "What the job's identity is made out to: the server's github.oidc-audience [bullpen].",
        text("a text without spaces", r"[!-~]{1,255}"),
        whose=(OURS,),
    ),
    Input(
        "config",
        "Path of a bullpen.toml, for the engines in this job. None is read that is not named.",
        text("the path of a file"),
        whose=(OURS,),
    ),
    Input(
        "home",
        "Directory of a pool on this machine, for the engines in this job.",
        text("the path of a directory"),
        whose=(OURS,),
    ),
    Input(
        "table-name",
        "The pool on AWS: the name of its table, and the prefix of everything else.",
        text("3 to 32 letters, digits and dashes, the first a letter", "[A-Za-z][A-Za-z0-9-]{2,31}"),
    ),
    Input(
        "aws-region",
        "Region of the pool on AWS [AWS_REGION].",
        text("the name of a region, such as eu-central-1", "[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}"),
    ),
    # ---- what machines are like: refresh is told, and the others find it in the table
    Input(
        "ami",
        "Image of the machines: Amazon Linux 2023 or Ubuntu.",
        text("the id of an AMI, such as ami-0123456789abcdef0", AWS_ID.format("ami")),
        machine=True,
    ),
    Input(
        "iam-instance-profile",
        "Name or ARN of the machines' instance profile.",
        text("the name or ARN of an instance profile", r"[\w+=,.@:/-]{1,320}"),
        machine=True,
    ),
    Input(
        "security-group-ids",
        "Security groups of the machines, separated by spaces.",
        words("ids such as sg-0123456789abcdef0", AWS_ID.format("sg")),
        machine=True,
    ),
    Input(
        "subnet-ids",
        "Subnets of the machines, separated by spaces; best one for each zone.",
        words("ids such as subnet-0123456789abcdef0", AWS_ID.format("subnet")),
        machine=True,
    ),
    Input(
        "github-token",
        "Token with which refresh gets registration tokens for runners.",
        text("a token without spaces", r"[!-~]{1,4096}"),
        whose=(ORIGINAL, MACHULAV, NAMECHEAP),
        secret=True,
    ),
    Input(
        "github-reg-token-refresh-min",
        "A registration token older than this is replaced [30].",
        whole(1, 59, "minutes"),
        (REFRESH,),
        machine=True,
    ),
    Input(
        "idle-time-sec",
        "How long an idle runner waits in the pool [300].",
        whole(1, 7 * 86400, "seconds"),
        (REFRESH,),
        machine=True,
    ),
    Input(
        "max-runtime-min",
        "How long a run may hold its runners [30, or as refresh was told].",
        whole(1, limits.RUNTIME_MINUTES, "minutes"),
        (PROVISION, REFRESH),
    ),
    Input(
        "pre-runner-script",
        "Shell text that a machine runs once, as root, before its first job. No secrets: refresh publishes it.",
        text("a shell script"),
        whose=(ORIGINAL, MACHULAV),
        machine=True,
    ),
    Input(
        "resource-class-config", "Classes as JSON: name → cpu and mmem (MiB), both minimums.", classes(), machine=True
    ),
    Input(
        "aws-resource-tags",
        "Tags of machines and volumes: a JSON list of Key and Value.",
        tags(),
        whose=(MACHULAV, NAMECHEAP),
        machine=True,
    ),
    Input(
        "runner-home-dir",
        "Where the image has GitHub's runner [/opt/actions-runner].",
        text("an absolute path", r"/[^\s]*"),
        whose=(MACHULAV,),
        machine=True,
    ),
    Input(
        "volume-size",
        "GiB of the root volume; 0 for the image's own.",
        whole(0, 16384, "GiB"),
        whose=(NAMECHEAP,),
        machine=True,
    ),
    Input(
        "ec2-device-name",
        "Name of the root device in the image [/dev/xvda].",
        text("a device name, such as /dev/xvda", "/dev/[a-z0-9]{1,16}"),
        whose=(MACHULAV,),
        machine=True,
    ),
    Input(
        "startup-timeout-minutes",
        "How long a new machine may take until it is registered [3].",
        whole(1, 10, "minutes"),
        whose=(MACHULAV,),
        machine=True,
    ),
    Input(
        "spot-fallback",
        "Without spot capacity: on-demand asks for on-demand machines, fail fails [fail]. In refresh for every class.",
        one_of("on-demand", "fail"),
        whose=(NAMECHEAP,),
        machine=True,
    ),
    # ---- what a run asks for
    Input("instance-count", "How many runners [1].", whole(1, limits.COUNT), (PROVISION,)),
    Input(
        "usage-class",
        "How machines are bought: spot or on-demand [spot; with start, on-demand].",
        one_of("spot", "on-demand"),
        (PROVISION,),
    ),
    Input(
        "allowed-instance-types",
        "Types to choose from, separated by spaces; * stands for anything [c* m* r*].",
        words("patterns such as c* or m7g.large", limits.TYPE_PATTERN),
        (PROVISION,),
    ),
    Input(
        "resource-class",
        "Kind of runner [large].",
        text("1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit", limits.CLASS_NAME),
    ),
    Input("allow-partial", "Accept fewer runners than asked [false].", flag(), (PROVISION,), (NAMECHEAP,)),
    Input(
        "wait",
        "How long to wait for room in a pool that is full, such as 10m; holds no runner meanwhile [fail at once].",
        waiting(),
        (PROVISION,),
        (OURS,),
    ),
    Input(
        "label-by",
        "What a label stands for: run, attempt, class or attempt-class [run].",
        one_of("run", "attempt", "class", "attempt-class"),
        (PROVISION, RELEASE),
        (OURS,),
    ),
    Input(
        "label",
        "The label whose runners go back, as an earlier step put it out.",
        text("a label of this run", rf"[A-Za-z0-9._-]{{1,{limits.RUN_ID_LENGTH}}}"),
        (PROVISION, RELEASE),
        (MACHULAV, NAMECHEAP),
    ),
    Input("dry-run", "Only say what refresh would do [false].", flag(), (REFRESH,), (NAMECHEAP,)),
    Input("echo", "What mode echo prints.", text(), (ECHO,)),
)
INPUTS: Mapping[str, Input] = {one.name: one for one in _INPUTS}
OUTPUTS: Mapping[str, str] = {
    "label": "What jobs name in runs-on.",
    "instance-ids": "The runners' instances, as a JSON list.",
    "selected": "How many of them were reused from the pool.",
    "created": "How many were launched for this run.",
    "duration": "Seconds that it took.",
    "ids": "As instance-ids.",
    "id": "The first of instance-ids.",
    "ec2-instance-ids": "As instance-ids.",
    "ec2-instance-id": "As id.",
}
