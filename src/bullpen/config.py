"""Settings: every number that decides anything, with its default and the reason beside it; parsed once, frozen.

One kebab-case word names a setting in `bullpen.toml`, in `BULLPEN_*` variables and on the command line.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from bullpen.errors import ConfigError
from bullpen.model.job import LOSSES
from bullpen.model.ticket import Requirements, UsageClass, covers

Seconds = Annotated[float, Meta(gt=0, le=7 * 24 * 3600)]
Count = Annotated[int, Meta(ge=0, le=100_000)]
Fraction = Annotated[float, Meta(gt=0, le=1)]
Rate = Annotated[float, Meta(gt=0, le=1000)]
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z"
Name = Annotated[str, Meta(pattern=NAME)]
DOMAIN = r"^[A-Za-z0-9][A-Za-z0-9._/#-]{0,199}\Z"  # a trust domain: a word of ours, or what a repository is called
LONGEST_JOB = 5 * 86400.0  # seconds that GitHub lets a job take on a runner of somebody's own
PoolName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{2,31}\Z")]  # fits tables, queues and templates alike


class Frozen(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=False):
    """Immutable, kebab-case outside, and a misspelt setting is an error."""


class Timings(Frozen, frozen=True):
    """All in seconds."""

    heartbeat: Seconds = 5.0  # often enough that two lost beats still fit into a lease
    lease: Seconds = 15.0  # three beats: one may be late, one lost
    registration: Seconds = 10.0  # a warm runner registers in about 5 s; twice that is broken
    alive: Seconds = 15.0  # a heartbeat older than three beats proves nothing
    hedge: Seconds = 2.0  # a live agent acknowledges a claim in well under a second
    validation: Seconds = 180.0  # boot, pre-runner script and registration of a fresh machine
    provision: Seconds = 600.0  # a workflow step that waits longer is better told so
    claim_grace: Seconds = 60.0  # a claim outlives its provision's deadline by this: it never expires under a live one
    cleaning: Seconds = 120.0  # large work directories take a while to delete
    idle: Seconds = 420.0  # an idle machine costs money; most re-runs come within minutes
    max_runtime: Seconds = 1800.0  # longer jobs say so with --max-runtime-min
    takeover: Seconds = 5.0  # head start of the process that made a debt, before anybody else pays it
    put_back: Seconds = 3.0  # long enough not to meet the same ticket at once
    tick_first: Seconds = 0.1  # the first look at signals after a claim
    tick_longest: Seconds = 0.5  # where no event wakes us, the slowest look
    orphan: Seconds = 60.0  # a machine without a record is seen twice this far apart before it is ended
    settle: Seconds = 5.0  # what an interrupted provision may take to give everything back
    purge: Seconds = 3600.0  # a terminated record stays readable for an hour


class Pickup(Frozen, frozen=True):
    sightings: Annotated[int, Meta(ge=1, le=1000)] = 5  # the same ticket this often: the queue holds nothing for us
    misses: Annotated[int, Meta(ge=1, le=1000)] = 2  # batches without a fit before the index is asked instead


class ResourceClass(Frozen, frozen=True):
    """A kind of runner. Instances of the class have at least `cpu` and `mem` (MiB)."""

    cpu: Annotated[int, Meta(ge=1, le=1024)]  # processors that an instance of the class has at least
    mem: Annotated[int, Meta(ge=1, le=32 * 1024 * 1024)]  # MiB that it has at least
    idle_target: Count = 0  # kept on offer by refresh, never used ones created if need be
    max_instances: Count = 0  # 0: only [limits] bounds it
    image_generation: Annotated[int, Meta(ge=1)] = 1  # raise it to retire instances of an older image
    allowed_instance_types: tuple[str, ...] = ("*",)  # of a fleet that names none; more types are more capacity
    spot_fallback: bool = False  # runs that ask for spot accept on-demand, which costs more: idle ones, then new ones
    attempts: Annotated[int, Meta(ge=1, le=10)] = 1  # fleets tried for one shortfall of capacity; more make a run wait


class Limits(Frozen, frozen=True):
    max_instances: Count = 100  # live instances of the whole pool: a loop in a workflow must not empty the account
    max_count: Annotated[int, Meta(ge=1, le=1000)] = 500  # runners of one provision


class Trust(Frozen, frozen=True):
    """Who may take over whose used instances: domain → domains it inherits from. By default nobody but the same."""

    inherits: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what one run left, only its like may meet


class Agent(Frozen, frozen=True):
    pre_runner_script: str = ""  # shell text run once at boot; a non-zero exit fails the instance
    pre_runner_timeout: Seconds = 120.0  # two thirds of timings.validation: registration still has to fit in behind it
    keep: tuple[str, ...] = ()  # glob patterns under the runner's home that survive cleaning (tool caches)
    serve_url: str = ""  # where agents reach `bullpen serve`; empty: they use this home's store themselves
    capabilities: tuple[str, ...] = ()  # what jobs may ask of our machines with --capability, such as docker or gpu


class Liveness(Frozen, frozen=True):
    """Leases and what follows when one runs out. Times in seconds. `timings.lease` is what our own agents ask for."""

    tracking: bool = True  # off: beats are answered and not recorded, and nobody is ever declared lost
    reschedule: bool = True  # off: lost workers are marked and their jobs stay where they are, with an alarm
    default_lease: Seconds = 60.0  # for a caller that names none; it may not know how fast we would notice
    min_lease: Seconds = 5.0  # shorter ones cost more writes than a faster answer is worth
    max_lease: Seconds = 3600.0  # a longer one would hide a dead worker for hours
    confirm: Seconds = 7.0  # one beat and 2 s: a worker that lives is heard once more before it is given up
    cleanup: Seconds = 3600.0  # how long a lost worker may come back; a partition rarely lasts longer
    tombstone: Seconds = 86400.0  # a late worker is told for a day that it was given up; later its key is a new one
    grace_gap: Seconds = 15.0  # no beats received for three intervals: it was us, and everybody gets a fresh lease
    brake_from: Count = 20  # among fewer workers a percentage says little
    brake_fraction: Fraction = 0.55  # more than half of a failure domain silent is rarely their own fault
    brake_rate: Rate = 0.1  # losses per second and domain while braked: 6 a minute, an operator can still step in
    hold_max: Seconds = 900.0  # everybody silent for longer: they are gone after all, at the rate of the brake
    verify: Seconds = 120.0  # a job assigned and not taken up by then got lost on the way
    losses: Annotated[int, Meta(ge=1, le=LOSSES)] = LOSSES  # by then it is likely the job that kills its workers
    wait_for_runner: Seconds = 120.0  # a replacement boots in less; a job of a run without runners fails then


class Local(Frozen, frozen=True):
    capacity: Count = 32  # machines this host runs at once
    spot_capacity: Count = 32  # of them, at most this many as spot
    runner_users: tuple[str, ...] = ()  # as whom jobs run if we are root: each machine takes one that is nobody else's
    work_dir: str = ""  # where the machines' directories are made; empty: in the home, where jobs share its disk


class Engines(Frozen, frozen=True):
    pool: Literal["embedded", "aws"] = "embedded"  # SQLite and processes of one machine, or DynamoDB, SQS and EC2
    ci: Literal["builtin", "github"] = "builtin"  # whose jobs the runners execute


class Aws(Frozen, frozen=True):
    """The pool on DynamoDB, SQS and EC2; used with `engines.pool = "aws"`."""

    pool: PoolName = "bullpen"  # the table's name, the prefix of queues and templates, and the tag of every machine
    region: str = ""  # empty: as the AWS SDK finds it
    endpoints: dict[str, str] = field(default_factory=dict)  # service → URL, for private endpoints and emulators
    manage: Literal["refresh", "external"] = "refresh"  # external: Terraform makes what refresh would, which checks it
    image: str = ""  # the AMI of every machine: Amazon Linux 2023 or Ubuntu
    subnets: tuple[str, ...] = ()  # one for each availability zone: every zone is one more pool of capacity
    security_groups: tuple[str, ...] = ()  # none need be open: nobody connects to a machine
    instance_profile: str = ""  # name or ARN: what a machine may do, see `bullpen iam-policy instance`
    instance_role: str = ""  # ARN of the profile's role; with agent.serve-url, `serve` lets its machines in
    volume: Count = 0  # GiB of the root volume; 0: as the image has it
    root_device: str = "/dev/xvda"  # its name in the image: Ubuntu calls it /dev/sda1
    tags: dict[str, str] = field(default_factory=dict)  # put on every machine and volume, besides our own


class Github(Frozen, frozen=True):
    """GitHub Actions as the CI; used with `engines.ci = "github"`. A secret may be `file:` and the path of a file."""

    scope: str = ""  # owner/repository, or an organisation: where runners register
    url: str = "https://github.com"  # of GitHub Enterprise Server: its own
    api_url: str = ""  # empty: as the url has it
    token: str = ""  # a personal access token; an App is better: it expires by itself and belongs to nobody
    app_id: str = ""  # id or client id of a GitHub App, with its private-key
    private_key: str = ""  # of the App, in PEM
    installation_id: Annotated[int, Meta(ge=0)] = 0  # of the App; 0: the one of the scope
    webhook_secret: str = ""  # of the webhook that points to `serve`; empty: runs are only asked after
    pool: str = ""  # how our runners' names begin; empty: aws.pool, or "bullpen"
    runner_group: str = ""  # of an organisation; empty: the default one
    registration: Literal["persistent", "jit"] = "persistent"  # jit: anew for each job, with a cleaning in between
    runner_directory: str = "/opt/actions-runner"  # where the machine has GitHub's runner
    runner_url: str = ""  # fetched from here at boot instead: its archive, with runner-sha256
    runner_sha256: str = ""  # of that archive: nothing unknown is executed
    token_rotation: Seconds = 1800.0  # a registration token with less time left is replaced; GitHub gives an hour
    drift_margin: Seconds = 259200.0  # a runner is retired this long before GitHub refuses its version: a weekend
    poll: Seconds = 60.0  # how often `serve` asks after a run whose end no webhook has told
    rescue: tuple[str, ...] = ()  # repositories, or "*", whose lost jobs are run again; the owner must want that
    rescue_attempts: Annotated[int, Meta(ge=1, le=10)] = 1  # times a run is run again for lost jobs
    oidc_issuer: str = ""  # who signs the identity of jobs; empty: as the url has it
    oidc_audience: str = "bullpen"  # what a job's identity must be made out to

    def __repr__(self) -> str:
        """Without the secrets: settings end up in messages and tracebacks."""
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
    aws: Aws = Aws()
    github: Github = Github()
    classes: dict[Name, ResourceClass] = field(default_factory=_classes)

    @property
    def on_github(self) -> bool:
        """Whether jobs are GitHub's: then it, not we, says who is busy and how a job ended."""
        return self.engines.ci == "github"

    @property
    def runner_pool(self) -> str:
        """How the names of our runners begin, by which we know them among all others of the scope."""
        return self.github.pool or self.aws.pool

    @property
    def remembers(self) -> float:
        """Seconds for which the records of instances and provisions outlive them.

        A run of GitHub that has lost a runner may need days later what that was like: a job may take five.
        """
        return max(self.timings.purge, LONGEST_JOB) if self.on_github else self.timings.purge

    @property
    def makes_queues(self) -> bool:
        """Whether refresh makes and retires queues itself; else another tool does, and `Infrastructure` checks them."""
        return self.engines.pool == "embedded" or self.aws.manage == "refresh"

    def resource_class(self, name: str) -> ResourceClass:
        if name not in self.classes:
            raise ConfigError(f"resource-class {name!r}: unknown; configured are {', '.join(sorted(self.classes))}")
        return self.classes[name]

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
        """What a run asks, completed with what its class and trust domain say. Without a `fallback` it is the class's.

        Raise ConfigError for a class that is not configured, and for types that the class does not allow.
        """
        own_class = self.resource_class(resource_class)
        if "*" not in allowed_types and not covers(own_class.allowed_instance_types, allowed_types):
            raise ConfigError(
                f"allowed-instance-types {' '.join(allowed_types)}: goes beyond class {resource_class}, which allows"
                f" {' '.join(own_class.allowed_instance_types)}",
                remedy=f"Ask for fewer types, or allow more in classes.{resource_class}.allowed-instance-types.",
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
