"""Why jobs of a set wait: the cause, and a few words that name the setting. Pure."""

from bullpen.config import Settings
from bullpen.errors import LimitReached
from bullpen.lazy_dataclass import dataclass
from bullpen.model.scale_set import ScaleSet
from bullpen.model.wait import WaitCause
from bullpen.provision.caps import Cap, caps
from bullpen.provision.launch_report import LaunchReport
from bullpen.settings.scale_sets import completed
from bullpen.settings.setting import SCALE_SETS


@dataclass(frozen=True, slots=True)
class SupplyFacts:
    """What supply knows when it asks why jobs wait. What comes first explains what follows."""

    unheard: str = ""  # why the CI cannot be heard
    paused: str = ""  # who paused its class, since when and why
    unregistered: str = ""  # why the CI registers no runner
    is_limited: bool = False  # by a rate limit of the CI, which is why it cannot be heard or registers no runner
    refused: str = ""  # why no machine of the pool can serve the set
    is_capped: bool = False  # the set has as many runners as it may have
    lacking: int = 0  # runners that the pool does not have
    launch: LaunchReport | None = None  # the last one for the set's class, since the pool has lacked them
    registering: int = 0  # claimed, or engaged and not listening yet
    idle: int = 0


@dataclass(frozen=True, slots=True)
class WaitReason:
    """For programs and for people. `words` are empty where nothing is known."""

    cause: WaitCause
    words: str


def wait_reason(settings: Settings, scale_set: ScaleSet, facts: SupplyFacts) -> WaitReason:
    kind = scale_set.rules.resource_class
    away = WaitCause.GITHUB_LIMIT if facts.is_limited else WaitCause.GITHUB_OUTAGE
    if facts.unheard:
        return WaitReason(away, facts.unheard)
    if facts.paused:
        return WaitReason(WaitCause.PAUSED, facts.paused)
    if facts.unregistered:
        return WaitReason(away, f"GitHub registers no runner: {facts.unregistered}")
    if facts.refused:
        return WaitReason(WaitCause.IMAGE_RETIRED, facts.refused)
    if facts.is_capped:
        return WaitReason(WaitCause.CAP, str(max_of(settings, scale_set)))
    if facts.lacking and facts.launch is not None and facts.launch.hindrance:
        return WaitReason(_cause_of(facts.launch), facts.launch.hindrance)
    if facts.lacking and facts.launch is not None and facts.launch.on_the_way:
        coming = f"the pool has no free {kind} instance: {facts.launch.on_the_way} booting or being cleaned"
        return WaitReason(WaitCause.BOOTING, coming)
    if facts.lacking:
        return WaitReason(WaitCause.BOOTING, f"the pool has no free {kind} instance: {facts.lacking} to launch")
    if facts.registering:
        return WaitReason(WaitCause.BOOTING, "a runner is registering at GitHub")
    if facts.idle:
        return WaitReason(WaitCause.GITHUB_OUTAGE, "a runner is registered, and GitHub has not given it the job")
    return WaitReason(WaitCause.UNKNOWN, "")


def _cause_of(launch: LaunchReport) -> WaitCause:
    return WaitCause.CAP if isinstance(launch.refusal, LimitReached) else WaitCause.NO_CAPACITY


def max_of(settings: Settings, scale_set: ScaleSet) -> Cap:
    """The setting that limits the runners of a set: its own, or the cap of its class or pool that is its default."""
    rules = scale_set.rules
    for key, one in completed(settings).items():
        if one.name == scale_set.name and not settings.github.scale_sets[key].max:
            return Cap(caps(settings, one.resource_class)[0].setting, rules.max)
        if one.name == scale_set.name:
            return Cap(f"{SCALE_SETS}.{key}.max", rules.max)
    return Cap(f"max of {scale_set.name}", rules.max)
