"""Least-privilege IAM policies as data: what the control plane, a workflow and an instance may do, and on what.

    control plane    refresh, serve, doctor and everything else: the whole pool, and nothing outside it
    workflow         provision and release of warm machines: nothing is launched, no secret is read or written, and only
                     records of known kinds are; with `launch` machines are, which is the control plane's trust
    instance         an agent: reads instances and its own code, writes signals and heartbeats, and where runners are
                     GitHub's reads the secret that registers them; with `serve` nothing of that but its code

Everything is tied to the pool's name: the table and queues by their ARNs, machines and templates by their tag. IAM
takes 6,144 characters of a policy: what names itself, as the id of a subnet does, needs neither region nor account.
"""

import json
from typing import Any

from bullpen.config import Settings
from bullpen.engines.aws.dynamodb.schema import POOL_TAG
from bullpen.lazy_dataclass import dataclass
from bullpen.model.boot import ATTRIBUTES, BOOT_FAILURE, CALLER, failure_kind, partition_of

Statement = dict[str, Any]
Policy = dict[str, Any]
QUOTA_CODES = {"on-demand": "L-1216C47A", "spot": "L-34B43A08"}
"""Service Quotas' names of what bounds a fleet: vCPUs of standard instances, by market."""
READS = ("BatchGetItem", "Query")
WRITES = ("ConditionCheckItem", "DeleteItem", "PutItem", "UpdateItem")
CLAIMED = ("Instance", "Provision", "Job", "Held#*", "Gone", "Repository", "Report#*", "Meter", "MeterOver", "Usage#*")
"""The kinds of items that a claim and a release write: records, the report of a claim and the time of its machines."""
SEEN = ("Heartbeat", "WS", "Meta", f"{BOOT_FAILURE}#*", "ScaleSet", "Pause")
"""Those that they only read. A claim also looks at machines that still boot, and may have failed to. A scale set says
how long a job may last on a machine that is given back, and a pause that nothing may begin."""
LAUNCHED = ("Agent", "Control", "Forgotten", "Heartbeat", "Log#*", "Observation#*", "Registration")
"""Those that a launch writes besides, and a `bullpen run` with it."""
SECRET = "Secret"
"""The kind of items that hold secrets, as `dynamodb.vault` writes them."""


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """What ARNs are made of. `*` stands for what is not known, and for any `images`, `subnets` or `security_groups`."""

    pool: str
    role: str
    profile: str
    images: tuple[str, ...] = ("*",)
    subnets: tuple[str, ...] = ("*",)
    security_groups: tuple[str, ...] = ("*",)
    region: str = "*"
    account: str = "*"
    partition: str = "aws"
    dns_suffix: str = ""  # of the partition; empty: follows from its name
    makes_templates: bool = True
    served: bool = False  # agents speak with `bullpen serve`, not with the table
    on_github: bool = False  # agents register at GitHub, for which they need a secret

    @property
    def table(self) -> str:
        return self.arn("dynamodb", f"table/{self.pool}")

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def unique_arn(self, resource: str) -> str:
        """Of what there is once only, or belongs to any account: subnets, security groups; images, snapshots."""
        return f"arn:{self.partition}:ec2:*:*:{resource}"

    def iam_arn(self, resource: str) -> str:
        return f"arn:{self.partition}:iam::{self.account}:{resource}"

    def tagged(self, tag: str) -> dict[str, Any]:
        """The condition that a thing carries the pool's tag (`ResourceTag`), or is made with it (`RequestTag`)."""
        return {"StringEquals": {f"aws:{tag}/{POOL_TAG}": self.pool}}

    def service(self, name: str) -> str:
        """A service as IAM names it there. EC2 has a name of its own in China; the service-linked roles have none."""
        return f"{name}.{self.dns_suffix or ('amazonaws.com.cn' if self.partition == 'aws-cn' else 'amazonaws.com')}"


def place_of(settings: Settings, account: str = "*", role: str = "", region: str = "") -> PolicyScope:
    """The place that the settings name. A role is taken to be called as its instance profile, unless it is named."""
    aws = settings.aws
    region = region or aws.region
    profile = aws.instance_profile.rpartition("instance-profile/")[2] or "*"
    return PolicyScope(
        pool=aws.pool,
        role=role or profile.rpartition("/")[2],
        profile=profile,
        images=settings.images or ("*",),
        subnets=aws.subnets or ("*",),
        security_groups=aws.security_groups or ("*",),
        region=region or "*",
        account=account,
        partition=partition_of(region),
        makes_templates=aws.manage == "refresh",
        served=bool(settings.agent.serve_url),
        on_github=settings.on_github,
    )


def control_plane(place: PolicyScope) -> Policy:
    records = _allow("Records", _dynamodb(*READS, *WRITES), [place.table, f"{place.table}/index/*"])
    console = _allow("Console", ["ec2:GetConsoleOutput"], [place.arn("ec2", "instance/*")], place.tagged("ResourceTag"))
    statements = [records, *_tickets(place), console, *_launching(place), *_looks(place), *_doctor(place)]
    if place.makes_templates:
        statements += [*_makes(place), _templates(place, "Delete", "ResourceTag")]
    return _policy(statements)


def workflow(place: PolicyScope, *, launch: bool = False) -> Policy:
    """A workflow runs what its authors write. So it claims and gives back warm machines, and launches none: a
    principal that may launch chooses what runs as root on a machine with the pool's role, and so reads what that reads.

    With `launch` it may: it is trusted like the control plane. In no form it reaches an item that holds a secret, or
    writes the settings that others work by.
    """
    written = (*CLAIMED, *LAUNCHED) if launch else CLAIMED
    records = _records(place, written, tuple(dict.fromkeys((*SEEN, *written))))
    return _policy([*records, *_tickets(place), *(_launching(place) if launch else ())])


def instance(place: PolicyScope) -> Policy:
    """DynamoDB distinguishes kinds of items, not their owners: only `serve` distinguishes machines.

    With it only the boot uses the table: it fetches the agent, or reports why it has none, in a partition whose
    name IAM takes from the machine's credentials.
    """
    table = [place.table]
    if place.served:
        own = _leading(failure_kind(CALLER))
        own["ForAllValues:StringEquals"]["dynamodb:Attributes"] = [*ATTRIBUTES]
        fetch = _allow("FetchAgent", _dynamodb("GetItem"), table, _leading("Agent"))
        return _policy([fetch, _allow("ReportBootFailure", _dynamodb("PutItem"), table, own)])
    read = ("Instance", "Agent", SECRET) if place.on_github else ("Instance", "Agent")
    return _policy(
        [
            _allow("Read", _dynamodb("ConditionCheckItem", "GetItem"), table, _leading(*read)),
            _allow("Report", _dynamodb("UpdateItem"), table, _leading("WS", "Heartbeat")),
            _allow("Register", _dynamodb("DeleteItem", "PutItem"), table, _leading("Registration")),
        ]
    )


def _records(place: PolicyScope, written: tuple[str, ...], read: tuple[str, ...]) -> list[Statement]:
    """Records by their kind. An index shows what records are like, and nothing of what has no place in one."""
    return [
        _allow("ReadRecords", _dynamodb(*READS), [place.table], _leading(*read, test="StringLike")),
        _allow("WriteRecords", _dynamodb(*WRITES), [place.table], _leading(*written, test="StringLike")),
        _allow("ReadIndexes", _dynamodb("Query"), [f"{place.table}/index/*"]),
    ]


def _tickets(place: PolicyScope) -> list[Statement]:
    """What it takes to claim, to give back, and to end what is not clean."""
    messages = ("DeleteMessage", "GetQueueAttributes", "GetQueueUrl", "ReceiveMessage", "SendMessage")
    tagged = place.tagged("ResourceTag")
    return [
        _allow("Tickets", [f"sqs:{verb}" for verb in messages], [place.arn("sqs", f"{place.pool}-*")]),
        _allow("TerminateInstances", ["ec2:TerminateInstances"], [place.arn("ec2", "instance/*")], tagged),
        _allow("Describe", ["ec2:DescribeInstances"], ["*"]),
    ]


def _launching(place: PolicyScope) -> list[Statement]:
    launch = ["ec2:CreateFleet", "ec2:RunInstances"]
    made = [place.arn("ec2", f"{kind}/*") for kind in ("fleet", "instance", "volume")]
    used = [
        *(place.unique_arn(f"subnet/{subnet}") for subnet in place.subnets),
        *(place.unique_arn(f"security-group/{group}") for group in place.security_groups),
        *(place.unique_arn(f"image/{image}") for image in place.images),
        place.unique_arn("snapshot/*"),
        place.arn("ec2", "network-interface/*"),
        place.arn("ec2", "spot-instances-request/*"),
    ]
    templates = place.arn("ec2", "launch-template/*")
    tagged_at_birth, creators = [*made], ["CreateFleet", "RunInstances"]
    if place.makes_templates:
        tagged_at_birth.append(templates)
        creators.append("CreateLaunchTemplate")
    tagging = {"StringEquals": {"ec2:CreateAction": creators}}
    passing = {"StringEquals": {"iam:PassedToService": place.service("ec2")}}
    spot = "spot.amazonaws.com"  # instant fleets need no role of EC2 Fleet's own
    linked, for_spot = place.iam_arn(f"role/aws-service-role/{spot}/*"), {"StringEquals": {"iam:AWSServiceName": spot}}
    statements = [
        _allow("LaunchTaggedOnly", launch, made, place.tagged("RequestTag")),
        _allow("LaunchFromPoolTemplates", launch, [templates], place.tagged("ResourceTag")),
        _allow("LaunchResources", launch, used),
        _allow("TagOnLaunch", ["ec2:CreateTags"], tagged_at_birth, tagging),
        _allow("DescribeTypes", ["ec2:DescribeInstanceTypes"], ["*"]),
        _allow("DescribeTemplates", ["ec2:DescribeLaunchTemplates", "ec2:DescribeLaunchTemplateVersions"], ["*"]),
        _allow("PassInstanceRole", ["iam:PassRole"], [place.iam_arn(f"role/{place.role}")], passing),
        _allow("CreateSpotServiceRole", ["iam:CreateServiceLinkedRole"], [linked], for_spot),
    ]
    if place.makes_templates:  # for runs that ask for types of their own
        statements.append(_templates(place, "Create", "RequestTag"))
    return statements


def _looks(place: PolicyScope) -> list[Statement]:
    """What refresh looks at, whichever tool made it."""
    described = _dynamodb("DescribeContinuousBackups", "DescribeTable", "DescribeTimeToLive", "GetItem")
    return [
        _allow("Table", described, [place.table]),
        _allow("ListQueues", ["sqs:ListQueues"], ["*"]),
        _allow("ReadQueueTags", ["sqs:ListQueueTags"], [place.arn("sqs", f"{place.pool}-*")]),
    ]


def _makes(place: PolicyScope) -> list[Statement]:
    """What refresh makes and corrects."""
    tables = ("CreateTable", "TagResource", "UpdateContinuousBackups", "UpdateTable", "UpdateTimeToLive")
    verbs = ("CreateQueue", "DeleteQueue", "SetQueueAttributes", "TagQueue")
    return [
        _allow("CreateTable", _dynamodb(*tables), [place.table]),
        _allow("CreateQueues", [f"sqs:{verb}" for verb in verbs], [place.arn("sqs", f"{place.pool}-*")]),
    ]


def _doctor(place: PolicyScope) -> list[Statement]:
    caller = [place.iam_arn("role/*"), place.iam_arn("user/*")]
    looks = ("DescribeImages", "DescribeSecurityGroups", "DescribeSubnets", "GetInstanceTypesFromInstanceRequirements")
    return [
        _allow("DescribeNetwork", [f"ec2:{look}" for look in looks], ["*"]),
        _allow("ReadInstanceProfile", ["iam:GetInstanceProfile"], [place.iam_arn(f"instance-profile/{place.profile}")]),
        _allow("ReadQuotas", ["servicequotas:GetServiceQuota"], [place.arn("servicequotas", "ec2/*")]),
        _allow("ReadDefaultQuotas", ["servicequotas:GetAWSDefaultServiceQuota"], ["*"]),  # IAM ties it to nothing
        _allow("SimulateOwnPolicy", ["iam:SimulatePrincipalPolicy"], caller),
    ]


def _templates(place: PolicyScope, verb: str, tag: str) -> Statement:
    resource = place.arn("ec2", "launch-template/*")
    return _allow(f"{verb}Templates", [f"ec2:{verb}LaunchTemplate"], [resource], place.tagged(tag))


def _dynamodb(*verbs: str) -> list[str]:
    return [f"dynamodb:{verb}" for verb in verbs]


def _leading(*kinds: str, test: str = "StringEquals") -> dict[str, Any]:
    return {f"ForAllValues:{test}": {"dynamodb:LeadingKeys": [f"TYPE#{kind}" for kind in kinds]}}


def _allow(sid: str, actions: list[str], resources: list[str], condition: dict[str, Any] | None = None) -> Statement:
    allowed = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return {**allowed, "Condition": condition} if condition else allowed


def _policy(statements: list[Statement]) -> Policy:
    """Statements about the same resources under the same conditions become one: a policy is short of characters."""
    merged: dict[str, Statement] = {}
    for one in statements:
        known = merged.setdefault(json.dumps([one["Effect"], one["Resource"], one.get("Condition")]), one)
        if known is not one:
            known["Action"] = [*known["Action"], *one["Action"]]
    return {"Version": "2012-10-17", "Statement": list(merged.values())}
