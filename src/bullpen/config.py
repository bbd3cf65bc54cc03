"""Settings: every tunable value with its default and a comment on meaning and reason. Parsed once, then immutable.

A setting has one kebab-case name in `bullpen.toml`, in `BULLPEN_*` variables and on the command line. The comments are
the descriptions in the settings table of docs/operating.md.
"""

from datetime import datetime
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from bullpen.errors import ConfigError
from bullpen.model import limits
from bullpen.model.job import LOSSES
from bullpen.model.scale_set import SetRules
from bullpen.model.schedule import TargetNow, WeeklyEntry, named_days, target_at, target_now, windows_of, zone_of
from bullpen.model.ticket import Requirements, UsageClass, covers

Seconds = Annotated[float, Meta(gt=0, le=7 * 24 * 3600)]
Count = Annotated[int, Meta(ge=0, le=100_000)]
Fraction = Annotated[float, Meta(gt=0, le=1)]
Price = Annotated[float, Meta(ge=0, le=10_000)]
Rate = Annotated[float, Meta(gt=0, le=1000)]
Name = Annotated[str, Meta(pattern=limits.whole(limits.CLASS_NAME))]
MEBIBYTE = 1024 * 1024
PoolName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{2,31}\Z")]  # also valid for queues and templates


class Frozen(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=False):
    """Immutable, with kebab-case names outside; an unknown name is an error."""


class Timings(Frozen, frozen=True):
    """All in seconds."""

    heartbeat: Seconds = 5.0  # interval of an agent's heartbeats: two can get lost within one lease
    lease: Seconds = 15.0  # lease of an agent: three heartbeats, so that one may be late and one lost
    registration: Seconds = 10.0  # deadline for a warm runner to register: twice the usual time of about 5 s
    alive: Seconds = 15.0  # largest age of a heartbeat that proves a live agent: three heartbeats
    hedge: Seconds = 2.0  # delay before a second claim: a live agent acknowledges a claim in well under a second
    validation: Seconds = 180.0  # deadline for a new machine to boot, run the pre-runner script and register
    provision: Seconds = 600.0  # deadline of a provision: a workflow step should fail rather than wait longer
    claim_grace: Seconds = 60.0  # a claim outlasts its provision's deadline by this, so that it never expires first
    cleaning: Seconds = 120.0  # deadline for cleaning a runner: large work directories take a while to delete
    idle: Seconds = 420.0  # how long an idle runner stays on offer; it costs money, and most re-runs come soon
    max_runtime: Seconds = 1800.0  # how long a run may hold its runners; --max-runtime-min sets it for one run
    takeover: Seconds = 5.0  # head start of the process that made a debt, before another process pays it
    put_back: Seconds = 3.0  # delay of a ticket that did not fit, so that a provision does not receive it again at once
    tick_first: Seconds = 0.1  # delay until signals are read for the first time after a claim
    tick_longest: Seconds = 0.5  # longest interval of reading signals where no event wakes the process
    orphan: Seconds = 60.0  # a machine without a record is ended after it was seen twice, this far apart
    settle: Seconds = 5.0  # time that an interrupted provision has to give everything back
    purge: Seconds = 3600.0  # how long the record of a terminated instance stays readable


class Pickup(Frozen, frozen=True):
    sightings: Annotated[int, Meta(ge=1, le=1000)] = 5  # seeing one ticket this often means that the queue holds no fit
    misses: Annotated[int, Meta(ge=1, le=1000)] = 2  # batches without a fit before the idle index is queried


class ScheduleEntry(Frozen, frozen=True):
    """The idle target of some hours of the week, by the clock of a time zone."""

    idle_target: Count  # idle-target of the class in these hours
    days: str | tuple[str, ...] = "mon-sun"  # mon to sun, weekdays, weekend, a range such as mon-thu, or a list of them
    hours: str = "00:00-24:00"  # such as 08:00-18:30; 22:00-06:00 ends on the next day
    time_zone: str = "UTC"  # IANA name of the time zone, such as Europe/Berlin


class ResourceClass(Frozen, frozen=True):
    """A class of runners. Its instances have at least `cpu` processors and `mem` MiB."""

    cpu: Annotated[int, Meta(ge=1, le=limits.CPU)]  # minimum number of processors
    mem: Annotated[int, Meta(ge=1, le=limits.MEM)]  # minimum memory in MiB
    idle_target: Count = 0  # instances that refresh and serve keep on offer; they create new ones if needed
    max_instances: Count = 0  # largest number of live instances of the class; 0: only limits.max-instances applies
    image: str = ""  # on AWS: AMI of this class's machines; empty: aws.image
    architecture: Literal["", "x86_64", "arm64"] = ""  # on AWS: that of its image and its machines; empty: the image's
    disk: Count = 0  # on AWS: size of the root volume in GiB; 0: aws.volume
    image_generation: Annotated[int, Meta(ge=1)] = 1  # raise it to retire instances of an older image
    allowed_instance_types: tuple[str, ...] = ("*",)  # types for runs that name none; more types give more capacity
    spot_fallback: bool = False  # spot runs also accept on-demand instances, which cost more: idle ones, then new ones
    attempts: Annotated[int, Meta(ge=1, le=10)] = 1  # fleets tried if capacity is missing; more make a run wait longer
    schedule: tuple[ScheduleEntry, ...] = ()  # hours with an idle target of their own, as `[[classes.NAME.schedule]]`

    @property
    def entries(self) -> tuple[WeeklyEntry, ...]:
        """Raise ValueError for an entry that `validation` refuses."""
        return tuple(map(entry_of, self.schedule))

    def target_at(self, now: datetime) -> int:
        """How many instances are kept on offer at this moment."""
        return target_at(self.idle_target, self.entries, now) if self.schedule else self.idle_target

    def target_now(self, now: datetime) -> TargetNow:
        """The same with the reason, and when the target changes next."""
        return target_now(self.idle_target, self.entries, now)


@lru_cache(maxsize=1024)
def entry_of(written: ScheduleEntry) -> WeeklyEntry:
    """Raise ValueError."""
    days = named_days(written.days)
    text = f"{','.join(days)} {written.hours} {written.time_zone}"
    windows = windows_of(days, written.hours)
    return WeeklyEntry(windows, zone_of(written.time_zone), written.idle_target, text)


class Limits(Frozen, frozen=True):
    max_instances: Count = 100  # largest number of live instances of the pool, against runaway workflows
    max_count: Annotated[int, Meta(ge=1, le=limits.COUNT)] = 500  # largest number of runners of one provision


class Trust(Frozen, frozen=True):
    """Which used instances a trust domain may reuse besides its own: domain → domains that it inherits from."""

    inherits: dict[str, tuple[str, ...]] = field(default_factory=dict)  # domain → domains whose used runners it may get


class Agent(Frozen, frozen=True):
    pre_runner_script: str = ""  # shell script that runs once at boot; a non-zero exit code fails the instance
    pre_runner_timeout: Seconds = 120.0  # longest time for that script; registration has the rest of timings.validation
    keep: tuple[str, ...] = ()  # glob patterns below the runner's home that survive cleaning, such as tool caches
    serve_url: str = ""  # URL at which agents reach `bullpen serve`; empty: agents use the store directly
    capabilities: tuple[str, ...] = ()  # words that jobs can require with --capability, such as docker or gpu


class Liveness(Frozen, frozen=True):
    """Leases, and what happens when one runs out. Times in seconds. Bullpen's own agents request `timings.lease`."""

    tracking: bool = True  # false: heartbeats are answered but not recorded, and no worker is declared lost
    reschedule: bool = True  # false: lost workers are marked, and their jobs stay where they are, with an alert
    default_lease: Seconds = 60.0  # lease of a worker that requests none
    min_lease: Seconds = 5.0  # shortest lease: shorter ones cost more writes than faster detection is worth
    max_lease: Seconds = 3600.0  # longest lease: a longer one would hide a dead worker for hours
    confirm: Seconds = 7.0  # a suspect worker silent for this long is declared lost: one heartbeat and 2 s
    cleanup: Seconds = 3600.0  # how long a lost worker may come back; a network partition rarely lasts longer
    tombstone: Seconds = 86400.0  # how long the key of a cleaned-up worker is refused; after that it is a new worker
    grace_gap: Seconds = 15.0  # without any heartbeat for this long, the receiver failed: all leases are renewed
    brake_from: Count = 20  # number of workers from which the brake applies: among fewer a percentage means little
    brake_fraction: Fraction = 0.55  # silent share of a failure domain that starts the brake: rarely the workers' fault
    brake_rate: Rate = 0.1  # losses per second and domain while braked: at 6 a minute an operator can still step in
    hold_max: Seconds = 900.0  # if all workers stay silent for longer, they are declared lost, at the rate of the brake
    verify: Seconds = 120.0  # an assigned job that its worker has not confirmed by then is assigned again
    losses: Annotated[int, Meta(ge=1, le=LOSSES)] = LOSSES  # a job that loses this many workers fails
    wait_for_runner: Seconds = 120.0  # a job of a run without runners fails after this time; a replacement boots faster


class Local(Frozen, frozen=True):
    capacity: Count = 32  # largest number of machines on this host
    spot_capacity: Count = 32  # largest number of spot machines among them
    runner_users: tuple[str, ...] = ()  # users for jobs if Bullpen runs as root; no two machines share one
    work_dir: str = ""  # directory for the machines' files; empty: in the home, so that jobs share its disk


class Sync(Frozen, frozen=True):
    """The files of a project that `bullpen run` sends to its runners. Sizes in MiB."""

    max_size: Annotated[int, Meta(ge=1, le=32 * 1024)] = 500  # largest project, in MiB; every job gets a copy
    store_size: Annotated[int, Meta(ge=1, le=16 * 1024 * 1024)] = 4096  # room for sent files and artifacts, in MiB

    @property
    def max_bytes(self) -> int:
        return self.max_size * MEBIBYTE

    @property
    def store_bytes(self) -> int:
        return self.store_size * MEBIBYTE


class HistorySettings(Frozen, frozen=True):
    """What is kept of the past, and what machines cost."""

    keep: Annotated[int, Meta(ge=1, le=400)] = 30  # days for which reports, activity and usage by the hour are kept
    prices: dict[str, Price] = field(default_factory=dict)  # instance type, or type:spot → USD per hour


class Engines(Frozen, frozen=True):
    pool: Literal["embedded", "aws"] = "embedded"  # embedded: SQLite and local processes; aws: DynamoDB, SQS, EC2
    ci: Literal["builtin", "github"] = "builtin"  # jobs of `bullpen job` and `run`, or of GitHub Actions


class TraceSettings(Frozen, frozen=True):
    """Provisions as OpenTelemetry traces; needs the extra `traces`."""

    endpoint: str = ""  # URL of an OTLP/HTTP receiver, such as http://localhost:4318/v1/traces; empty: no traces


class Aws(Frozen, frozen=True):
    """A pool on DynamoDB, SQS and EC2, with `engines.pool = "aws"`."""

    pool: PoolName = "bullpen"  # name of the table, prefix of queues and templates, and tag of every machine
    region: str = ""  # empty: the region that the AWS SDK finds
    endpoints: dict[str, str] = field(default_factory=dict)  # service → URL, for private endpoints and emulators
    manage: Literal["refresh", "external"] = "refresh"  # external: Terraform creates the resources, refresh checks them
    image: str = ""  # AMI of every class that names none of its own: Amazon Linux 2023 or Ubuntu
    subnets: tuple[str, ...] = ()  # one for each availability zone: every zone adds a capacity pool
    security_groups: tuple[str, ...] = ()  # no inbound rule is needed: only agents open connections
    instance_profile: str = ""  # name or ARN; `bullpen iam-policy instance` prints its permissions
    instance_role: str = ""  # ARN of the profile's role; with agent.serve-url, `serve` admits its machines
    volume: Count = 0  # size of the root volume in GiB; 0: as in the image
    root_device: str = "/dev/xvda"  # device name of the root volume in the image; Ubuntu has /dev/sda1
    tags: dict[str, str] = field(default_factory=dict)  # additional tags of every machine and volume


class ScaleSetSettings(Frozen, frozen=True):
    """A runner scale set: jobs with its name in `runs-on` get a runner of the pool, without a step that asks for it."""

    events: Literal["any", "trusted"]  # trusted: the set serves pushes and schedules, but no pull requests; any: all
    resource_class: str = field(default="", name="class")  # resource class of its runners; empty: the table's name
    name: str = ""  # what workflows write in `runs-on`; empty: bullpen- and the class
    min: Count = 0  # runners that wait registered; with 1, the first job of a push starts without a registration
    max: Count = 0  # largest number of its runners; 0: the cap of its class, else that of the pool
    usage_class: Literal["on-demand", "spot"] = "on-demand"  # purchase option of its runners: on-demand or spot
    runner_group: str = ""  # runner group of an organisation; empty: github.runner-group
    trust_domain: str = ""  # trust domain whose used runners it may reuse; empty: that of github.scope, if a repository
    repositories: tuple[str, ...] = ()  # repositories whose jobs it serves, as OWNER/NAME[/ID]; "*": all of the scope
    linger: Seconds = 60.0  # an idle runner above min is given back after this; jobs often follow each other
    max_runtime_min: Annotated[int, Meta(ge=1, le=limits.RUNTIME_MINUTES)] = 360  # longest time of a job, in minutes


class Github(Frozen, frozen=True):
    """GitHub Actions as CI, with `engines.ci = "github"`. A secret may be `file:` and the path of a file."""

    scope: str = ""  # owner/repository or organisation where the runners register
    url: str = "https://github.com"  # URL of GitHub or of your GitHub Enterprise Server
    api_url: str = ""  # empty: derived from url
    token: str = ""  # personal access token; an App is better: its tokens expire, and it belongs to no person
    app_id: str = ""  # id or client id of a GitHub App, used with private-key
    private_key: str = ""  # private key of the App, in PEM
    installation_id: Annotated[int, Meta(ge=0)] = 0  # installation of the App; 0: that of the scope
    webhook_secret: str = ""  # secret of the webhook that calls `serve`; empty: `serve` polls the runs
    pool: str = ""  # prefix of the runners' names; empty: aws.pool
    runner_group: str = ""  # runner group of an organisation; empty: the default group
    registration: Literal["persistent", "jit"] = "persistent"  # jit: a new registration for each job, after a cleaning
    runner_directory: str = "/opt/actions-runner"  # directory of GitHub's runner on the machine
    runner_url: str = ""  # archive of the runner to download at boot instead; needs runner-sha256
    runner_sha256: str = ""  # SHA-256 of that archive, so that no unknown program is executed
    token_rotation: Seconds = 1800.0  # a registration token with less time left is replaced; GitHub's last for an hour
    drift_margin: Seconds = 259200.0  # a runner is retired this long before GitHub refuses its version: three days
    poll: Seconds = 60.0  # interval of polling a run whose end no webhook has reported, and queued jobs of scale sets
    rescue: tuple[str, ...] = ()  # repositories, or "*", whose lost jobs are re-run; their owner must agree to that
    rescue_attempts: Annotated[int, Meta(ge=1, le=10)] = 1  # largest number of re-runs of one run for lost jobs
    oidc_issuer: str = ""  # issuer of the jobs' OIDC tokens; empty: derived from url
    oidc_audience: str = "bullpen"  # audience that the OIDC token of a job must have
    scale_sets: dict[Name, ScaleSetSettings] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without the secrets, because settings appear in messages and tracebacks."""
        return f"{type(self).__name__}(scope={self.scope!r}, url={self.url!r}, …)"


def _classes() -> dict[str, ResourceClass]:
    return {
        "small": ResourceClass(cpu=1, mem=1024),
        "medium": ResourceClass(cpu=2, mem=4096),
        "large": ResourceClass(cpu=4, mem=16384),
    }


class Settings(Frozen, frozen=True):
    engines: Engines = Engines()
    timings: Timings = Timings()
    pickup: Pickup = Pickup()
    limits: Limits = Limits()
    trust: Trust = Trust()
    agent: Agent = Agent()
    liveness: Liveness = Liveness()
    local: Local = Local()
    sync: Sync = Sync()
    history: HistorySettings = HistorySettings()
    traces: TraceSettings = TraceSettings()
    aws: Aws = Aws()
    github: Github = Github()
    classes: dict[Name, ResourceClass] = field(default_factory=_classes)

    @property
    def on_github(self) -> bool:
        """Whether the runners execute GitHub's jobs: then GitHub reports which runners are busy and how a job ended."""
        return self.engines.ci == "github"

    @property
    def runner_pool(self) -> str:
        """The prefix of the runners' names at GitHub, which distinguishes them from other runners of the scope."""
        return self.github.pool or self.aws.pool

    @property
    def remembers(self) -> float:
        """Seconds that the records of ended instances and provisions are kept.

        To replace a lost runner of a GitHub run, its record is needed as long as a job may take: five days.
        """
        return max(self.timings.purge, limits.JOB_TIMEOUT[1]) if self.on_github else self.timings.purge

    @property
    def makes_queues(self) -> bool:
        """Whether refresh creates and removes queues. Otherwise Terraform does, and refresh only checks them."""
        return self.engines.pool == "embedded" or self.aws.manage == "refresh"

    def image_of(self, resource_class: str) -> str:
        """The AMI of a class's machines, on AWS."""
        return self.resource_class(resource_class).image or self.aws.image

    @property
    def images(self) -> tuple[str, ...]:
        """Every AMI that a class's machines are launched from, each once; none where none is set."""
        return tuple(dict.fromkeys(filter(None, map(self.image_of, self.classes))))

    def resource_class(self, name: str) -> ResourceClass:
        if name not in self.classes:
            known = ", ".join(sorted(self.classes))
            raise ConfigError(
                f"resource-class {name!r}: not configured; known are {known}",
                field="resource-class",
                value=name,
                allowed=f"one of {known}",
            )
        return self.classes[name]

    def set_requirements(self, rules: SetRules) -> Requirements | None:
        """What an instance must be to serve a set with these rules; None if their class is not configured any more."""
        if rules.resource_class not in self.classes:
            return None
        return self.requirements(rules.resource_class, rules.usage_class, trust_domain=rules.trust_domain)

    def requirements(
        self,
        resource_class: str,
        usage_class: UsageClass = UsageClass.ON_DEMAND,
        allowed_types: tuple[str, ...] = ("*",),
        cpu: int = 0,
        mem: int = 0,
        trust_domain: str = "default",
        repository: str = "",
        fallback: tuple[UsageClass, ...] | None = None,
    ) -> Requirements:
        """The requirements of a run, completed from its class and trust domain. `fallback` defaults to the class's.

        Raise ConfigError for an unknown class, and for types that the class does not allow.
        """
        own_class = self.resource_class(resource_class)
        if "*" not in allowed_types and not covers(own_class.allowed_instance_types, allowed_types):
            raise ConfigError(
                f"allowed-instance-types {' '.join(allowed_types)}: exceeds class {resource_class}, which allows"
                f" {' '.join(own_class.allowed_instance_types)}",
                remedy=f"Request fewer types, or add them to classes.{resource_class}.allowed-instance-types.",
                field="allowed-instance-types",
                value=" ".join(allowed_types),
                allowed=" ".join(own_class.allowed_instance_types),
            )
        if fallback is None:
            falls_back = own_class.spot_fallback and usage_class is UsageClass.SPOT
            fallback = (UsageClass.ON_DEMAND,) if falls_back else ()
        return Requirements(
            resource_class=resource_class,
            usage_class=usage_class,
            allowed_types=allowed_types,
            cpu=cpu,
            mem=mem,
            trust_domain=trust_domain,
            inherits=self.trust.inherits.get(trust_domain, ()),
            image_generation=own_class.image_generation,
            repository=repository,
            fallback=fallback,
        )
