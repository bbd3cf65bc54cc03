"""The `[github.scale-sets.NAME]` settings: completed from the others, and validated before the first call of GitHub."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import structs

from bullpen.config import ScaleSetSettings, Settings
from bullpen.model import label
from bullpen.model.limits import CLASS_NAME_ALLOWED, SET_NAME, TRUST_DOMAIN, TRUST_DOMAIN_ALLOWED
from bullpen.model.trust import of_repository, trust_domain
from bullpen.settings.github import covers
from bullpen.settings.redaction import shortened
from bullpen.settings.setting import SCALE_SETS

TAKEN = re.compile(r"self-hosted|linux|windows|macos|x64|x86|arm|arm64|(ubuntu|windows|macos)-.*", re.IGNORECASE)
"""Labels that GitHub's own runners have, and those that every other self-hosted runner gets."""
EVERY = "*"
PUSH = ("push", "refs/heads/main", "octocat")  # event, ref and actor of a run that is certainly the repository's own
PULL_REQUEST = ("pull_request", "refs/pull/1/merge", "octocat")

Completed = Mapping[str, ScaleSetSettings]


def completed(settings: Settings) -> Completed:
    """Every scale set, by the name of its table, with what it takes from the class, the pool and `[github]`."""
    return {key: _completed(settings, key, one) for key, one in settings.github.scale_sets.items()}


def named_repository(text: str) -> tuple[str, int]:
    """Name and id of an entry of `repositories`. The id is 0 in a bare name, and the name is the text if it is none of
    a repository."""
    found = of_repository(text)
    return (found.name, found.id) if found is not None and not found.kind else (text, 0)


def _completed(settings: Settings, key: str, one: ScaleSetSettings) -> ScaleSetSettings:
    resource_class = one.resource_class or key
    own_class = settings.classes.get(resource_class)
    own = (settings.github.scope,) if _is_repository(settings) else ()
    return structs.replace(
        one,
        resource_class=resource_class,
        name=one.name or f"bullpen-{resource_class}",
        max=one.max or (own_class.max_instances if own_class else 0) or settings.limits.max_instances,
        runner_group=one.runner_group or settings.github.runner_group,
        trust_domain=one.trust_domain or (_domain(one.events, own[0]) if own else ""),
        repositories=one.repositories or own,
    )


def _domain(events: str, repository: str) -> str:
    return trust_domain(repository, 0, *(PUSH if events == "trusted" else PULL_REQUEST))


def _is_repository(settings: Settings) -> bool:
    return "/" in settings.github.scope


def impossible_scale_sets(settings: Settings) -> Iterator[str]:
    """Errors in the settings of scale sets; none if there is no set."""
    sets = completed(settings)
    if not sets:
        return
    if not settings.liveness.tracking:
        yield "liveness.tracking (false) must be true with scale sets: heartbeats say which of their runners are free"
    if not settings.on_github:
        found = f"engines.ci ({settings.engines.ci!r})"
        yield f'{found} must be "github" with {SCALE_SETS}: only GitHub has scale sets'
        return
    if not settings.agent.serve_url:
        why = "the runners of a set get their registrations from `serve`"
        yield f"agent.serve-url ('') must be set with {SCALE_SETS}: {why}"
    for key, one in sets.items():
        yield from _impossible_set(settings, f"{SCALE_SETS}.{key}", one)
    yield from _equal_names(sets)
    yield from _mixed_domains(sets)
    yield from _impossible_sums(settings, sets)


def _impossible_set(settings: Settings, where: str, one: ScaleSetSettings) -> Iterator[str]:
    if one.resource_class not in settings.classes:
        known = ", ".join(sorted(settings.classes))
        yield f"{where}.class ({shortened(one.resource_class)}) must be a class, one of {known}"
    yield from _impossible_name(f"{where}.name ({shortened(one.name)})", one.name)
    if one.max == 0:
        yield f"{where}.max (0) must be at least 1: limits.max-instances, which is its default, is 0"
    elif one.min > one.max:
        yield f"{where}.min ({one.min}) must be at most {where}.max ({one.max})"
    if one.runner_group and one.runner_group != settings.github.runner_group and _is_repository(settings):
        found = f"{where}.runner-group ({shortened(one.runner_group)})"
        only = "only organisations have runner groups"
        yield f"{found} must be empty: {only}, and {settings.github.scope} is a repository"
    yield from _impossible_reach(settings, where, one)


def _impossible_name(found: str, name: str) -> Iterator[str]:
    if not re.fullmatch(SET_NAME, name):
        yield f"{found} must be {CLASS_NAME_ALLOWED}: workflows write it in runs-on"
    elif label.parse(name) is not None:
        yield f"{found} must not look like the label of a workflow run, such as 4711 or 4711-large: begin with a letter"
    elif TAKEN.fullmatch(name):
        yield f"{found} must not be a label that other runners have: the set would get their jobs"


def _impossible_reach(settings: Settings, where: str, one: ScaleSetSettings) -> Iterator[str]:
    """Errors in what decides whose jobs the set serves. A set of an organisation must say it: jobs of all its
    repositories can ask for the set."""
    scope, needed = settings.github.scope, f"it is required, because {settings.github.scope} is an organisation"
    if not one.trust_domain:
        yield f"{where}.trust-domain ('') must be the name of a trust domain: {needed}"
    elif not re.fullmatch(TRUST_DOMAIN, one.trust_domain):
        yield f"{where}.trust-domain ({shortened(one.trust_domain)}) must be {TRUST_DOMAIN_ALLOWED}"
    elif one.events == "any" and covers(scope, "/".join(one.trust_domain.split("/")[:2])):
        found = f"{where}.trust-domain ({shortened(one.trust_domain)})"
        yield f'{found} must be another one with events = "any": trusted runs of the repository have it'
    if not one.repositories:
        yield f'{where}.repositories ([]) must name the repositories that it serves, or "{EVERY}" for all: {needed}'
    for name in one.repositories:
        if name == EVERY and not _is_repository(settings):
            continue
        if not covers(scope, named_repository(name)[0]):
            allowed = f"must be a repository in github.scope ({scope!r}), OWNER/NAME or OWNER/NAME/ID"
            yield f"{where}.repositories has {shortened(name)}: {allowed}"


def _equal_names(sets: Completed) -> Iterator[str]:
    """GitHub compares labels without regard to case, and sets with equal labels get each other's jobs."""
    by_name: dict[str, str] = {}
    for key, one in sets.items():
        if (other := by_name.setdefault(one.name.casefold(), key)) != key:
            found = f"{SCALE_SETS}.{key}.name ({shortened(one.name)})"
            yield f"{found} must differ from the name of {SCALE_SETS}.{other}: they would get each other's jobs"


def _mixed_domains(sets: Completed) -> Iterator[str]:
    by_domain: dict[str, tuple[str, str]] = {}
    for key, one in sets.items():
        other, events = by_domain.setdefault(one.trust_domain, (key, one.events))
        if one.trust_domain and events != one.events:
            found = f"{SCALE_SETS}.{key}.trust-domain ({shortened(one.trust_domain)})"
            why = "runners of pull requests would serve trusted runs"
            yield f'{found} must differ from that of {SCALE_SETS}.{other}, which has events = "{events}": {why}'


def _impossible_sums(settings: Settings, sets: Completed) -> Iterator[str]:
    """Runners that wait registered, more than there may be instances."""
    if (total := sum(one.min for one in sets.values())) > settings.limits.max_instances:
        most = f"limits.max-instances ({settings.limits.max_instances})"
        yield f"the sum of {SCALE_SETS}.*.min ({total}) must be at most {most}"
    by_class = Counter[str]()
    for one in sets.values():
        by_class[one.resource_class] += one.min
    for name, kind in settings.classes.items():
        if 0 < kind.max_instances < by_class[name]:
            most = f"classes.{name}.max-instances ({kind.max_instances})"
            yield f"the sum of {SCALE_SETS}.*.min of class {name} ({by_class[name]}) must be at most {most}"
