"""What Bullpen needs from outside: the architecture on one page.

    store      Records, Signals, Observations: the truth, and the one way to change it
    liveness   Workers, Jobs, Logs: leases, and what runs under them
    sources    Sources, Artifacts: the files that jobs work on, and those that they leave behind
    workflows  Workflows: the runs of a CI that has jobs of its own
    scale_sets ScaleSets: jobs that such a CI assigns to a set of runners, and their registrations
    vault      Vault: secrets that agents need
    health     StoreHealth: whether the store works, and which loops of services keep failing
    machines   MachineLogs: what a machine wrote itself
    history    History: what happened, what it cost
    tokens     Tokens: who may use `bullpen serve`
    callers    Verifiers: who calls `bullpen serve` without a token, and how they prove it
    traces     Traces: where the report of each provision also goes
    traffic    Traffic: how many requests this process sent to the services behind its engines
    world      Clock, StoreClock, Chance, PoolQueue, Compute, CI, Infrastructure: everything else outside

Every engine keeps these promises; `tests/conformance/` holds each of them to account. Engines translate their own
errors into `bullpen.errors`: `Unavailable` where a retry may help, `Refused` where it will not.
"""

from dataclasses import field

from bullpen.lazy_dataclass import dataclass
from bullpen.ports.health import FailingLoop, ServiceNote, StoreHealth
from bullpen.ports.history import History, HistoryPage, NoHistory
from bullpen.ports.liveness import LOG_LIMIT, HeldLease, Jobs, Logs, Workers
from bullpen.ports.machine_logs import FoundLogs, MachineLog, MachineLogs, NoMachineLogs
from bullpen.ports.scale_sets import (
    JitConfiguration,
    JobMessage,
    JobMessageKind,
    MessageSession,
    NoScaleSets,
    RegisteredSet,
    ScaleSets,
    ScaleSetSpec,
    SetMessage,
    SetRunner,
    SetStatistics,
)
from bullpen.ports.sources import ARTIFACTS_LIMIT, KEPT_AT_LEAST, Artifacts, NoArtifacts, NoSources, Sources
from bullpen.ports.store import TOGETHER_LIMIT, Delta, InstanceGroup, Observations, Records, Signals
from bullpen.ports.tokens import StoredToken, TokenBook, Tokens
from bullpen.ports.traces import NoTraces, Traces
from bullpen.ports.traffic import RequestResult, Traffic
from bullpen.ports.vault import Secret, Vault
from bullpen.ports.workflows import Conclusion, NoWorkflows, WorkflowJob, WorkflowRun, Workflows
from bullpen.ports.world import (
    CI,
    Chance,
    Clock,
    Compute,
    Gap,
    Infrastructure,
    Message,
    NoInfrastructure,
    NoStoreClock,
    PoolQueue,
    Registration,
    RegistrationCredentials,
    Removal,
    Sighting,
    StoreClock,
)


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside, handed to each use case as one argument."""

    clock: Clock
    chance: Chance
    records: Records
    signals: Signals
    queue: PoolQueue
    compute: Compute
    ci: CI
    observations: Observations
    workers: Workers
    jobs: Jobs
    logs: Logs
    health: StoreHealth
    vault: Vault
    tokens: Tokens
    infrastructure: Infrastructure = field(default_factory=NoInfrastructure)
    workflows: Workflows = field(default_factory=NoWorkflows)
    scale_sets: ScaleSets = field(default_factory=NoScaleSets)
    sources: Sources = field(default_factory=NoSources)
    artifacts: Artifacts = field(default_factory=NoArtifacts)
    store_clock: StoreClock = field(default_factory=NoStoreClock)
    traffic: Traffic = field(default_factory=Traffic)
    traces: Traces = field(default_factory=NoTraces)
    history: History = field(default_factory=NoHistory)
    machine_logs: MachineLogs = field(default_factory=NoMachineLogs)
