"""What the settings say about each scale set: the rules that its record keeps, and what only the holder needs."""

from bullpen.config import ScaleSetSettings, Settings
from bullpen.model.scale_set import SetEvents, SetRepository, SetRules
from bullpen.model.ticket import UsageClass
from bullpen.settings.scale_sets import EVERY, completed, named_repository

UNNAMED_TABLE = "github.scale-sets.NAME"  # of a set that the settings do not have


def rules_of(settings: Settings) -> dict[str, SetRules]:
    """Every set of the settings by the name that workflows use, with the ids of those repositories that the settings
    name by id. `knowing` adds the others."""
    return {one.name: _rules(one) for one in completed(settings).values()}


def lingers(settings: Settings) -> dict[str, float]:
    """Seconds that an idle runner above `min` stays registered, by the name of the set."""
    return {one.name: one.linger for one in completed(settings).values()}


def tables(settings: Settings) -> dict[str, str]:
    """The table of each set in the settings, for messages, by the name of the set."""
    return {one.name: f"github.scale-sets.{key}" for key, one in completed(settings).items()}


def _rules(one: ScaleSetSettings) -> SetRules:
    return SetRules(
        resource_class=one.resource_class,
        usage_class=UsageClass(one.usage_class),
        trust_domain=one.trust_domain,
        events=SetEvents(one.events),
        repositories=() if EVERY in one.repositories else tuple(map(_repository, one.repositories)),
        group=one.runner_group,
        min=one.min,
        max=one.max,
        max_runtime=60.0 * one.max_runtime_min,
    )


def _repository(text: str) -> SetRepository:
    return SetRepository(*named_repository(text))
