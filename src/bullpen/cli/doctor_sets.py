"""The checks of `doctor` on scale sets, at GitHub and in the records, and on the jobs that ask for them; read only."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from bullpen.cli.text import ago
from bullpen.config import Settings
from bullpen.errors import BullpenError, PermissionDenied, Refused
from bullpen.inventory import SetView
from bullpen.model import scale_set
from bullpen.model.scale_set import ABSENT, RETIRED, RETIRING, ScaleSet, SetRules
from bullpen.ports import Ports, RegisteredSet
from bullpen.ports.health import Finding, Health
from bullpen.scale_sets.ownership import check_other_groups, find_in_group, is_own, taken
from bullpen.scale_sets.queued_labels import MistakenLabels, mistake
from bullpen.scale_sets.rules import rules_of, tables
from bullpen.scale_sets.set_writes import drift

LABELS = "set labels"
REPOSITORIES, RUNS = 3, 10  # whose queued jobs are read, and runs of each: at most 36 requests
REFRESH = "Run `bullpen refresh`, or wait a minute if `bullpen serve` runs."


def check_set_settings(settings: Settings) -> Iterator[Finding]:
    """What the settings alone show: jobs that would wait for a cap, and re-runs that would be noticed late."""
    rules = rules_of(settings)
    if not rules:
        return
    wanted: Counter[str] = Counter()
    for one in rules.values():
        wanted[one.resource_class] += one.max
    short = [
        f"{wanted[name]} of class {name}, and {where} is {cap}"
        for name in wanted
        for where, cap in [_cap(settings, name)]
        if wanted[name] > cap
    ]
    if not short and wanted.total() > settings.limits.max_instances:
        short = [f"{wanted.total()}, and limits.max-instances is {settings.limits.max_instances}"]
    if short:
        remedy = "Jobs beyond the cap wait. Lower max of the sets, or raise the cap."
        yield Finding("set sizes", Health.WARNING, f"the sum of max is {'; '.join(short)}", remedy)
    if idle := {name: one for name, one in rules.items() if one.min == 0}:
        yield _reruns(settings, idle)


def _cap(settings: Settings, name: str) -> tuple[str, int]:
    if own := settings.classes[name].max_instances:
        return f"classes.{name}.max-instances", own
    return "limits.max-instances", settings.limits.max_instances


def _reruns(settings: Settings, idle: Mapping[str, SetRules]) -> Finding:
    # The repositories of a set for all of them are not listed: there are too many.
    unseen = [] if settings.github.webhook_secret else [name for name, one in idle.items() if not one.repositories]
    names = ", ".join(unseen or idle)
    found = f"min is 0 for {names}: GitHub does not announce a re-run to a set without a registered runner"
    if not unseen:
        return Finding("set re-runs", Health.OK, f"{found}, so it starts later than a push")
    remedy = "Set github.webhook-secret and a webhook, name the repositories, or set min = 1 where re-runs matter."
    return Finding("set re-runs", Health.WARNING, f"{found}, and no webhook shows it", remedy)


async def check_sets(ports: Ports, settings: Settings, views: Sequence[SetView]) -> list[Finding]:
    """One finding for each set. Never raises a BullpenError."""
    if not views:
        return []
    stored, found = await ports.records.scale_sets(), []
    for view in views:
        try:
            found.append(await _check_set(ports, settings, view, stored))
        except BullpenError as exc:
            found.append(Finding(f"set {view.name}", Health.FAILED, str(exc), exc.remedy or "Try again."))
    return found


async def _check_set(ports: Ports, settings: Settings, view: SetView, stored: Mapping[str, ScaleSet]) -> Finding:
    name, rules = view.name, rules_of(settings).get(view.name)
    one = stored.get(name, scale_set.absent(name))
    is_kept = one.state not in (ABSENT, RETIRED)
    group = one.rules.group if is_kept or rules is None else rules.group
    seen = await ports.scale_sets.find(one.ci_id) if one.ci_id else None
    named = await find_in_group(ports, name, group)
    table = tables(settings).get(name, f"scale set {name}")
    if named is not None and not is_own(one, named):
        other = taken(table, name, named)
        return Finding(f"set {name}", Health.FAILED, str(other), other.remedy)
    if not is_kept:
        await check_other_groups(ports, table, one)
        remedy = "Start `bullpen serve`, or run `bullpen refresh`."
        return Finding(f"set {name}", Health.WARNING, "it is not created yet", remedy)
    if one.state is RETIRING:
        return Finding(f"set {name}", Health.OK, f"it retires: {view.why}")
    if seen is None:
        lost = f"GitHub has lost it ({one.ci_id})" if one.ci_id else "GitHub does not have it"
        return Finding(f"set {name}", Health.FAILED, lost, REFRESH)
    if differs := drift(one, seen):
        return Finding(f"set {name}", Health.WARNING, f"GitHub has it with {differs}", REFRESH)
    try:
        await check_other_groups(ports, table, one)
    except PermissionDenied:
        raise
    except Refused as double:  # an operator may have said that this is so
        return Finding(f"set {name}", Health.WARNING, str(double), double.remedy)
    return _listening(view, seen, ports.clock.now())


def _listening(view: SetView, seen: RegisteredSet, now: datetime) -> Finding:
    heard = f"GitHub's last message came {ago(view.heard_at, now)}" if view.heard_at else "no message has come yet"
    if view.holder:
        since = f"began to listen {ago(view.since, now)}" if view.since else "listens"
        return Finding(f"set {view.name}", Health.OK, f"id {seen.id}; {view.holder} {since}; {heard}")
    remedy = "Start `bullpen serve`: without it, jobs of this set wait."
    return Finding(f"set {view.name}", Health.WARNING, f"id {seen.id}; {view.why}; {heard}", remedy)


async def check_set_labels(ports: Ports, settings: Settings) -> list[Finding]:
    """Whether queued jobs that seem to ask for a scale set ask for what a set has: one finding for all sets; none if no
    set names a repository. Never raises a BullpenError."""
    rules = rules_of(settings)
    names = [*dict.fromkeys(one.name for of_set in rules.values() for one in of_set.repositories)][:REPOSITORIES]
    if not names:
        return []
    found: dict[MistakenLabels, str] = {}
    for name in names:
        try:
            jobs = await ports.workflows.waiting_jobs(name, RUNS)
        except BullpenError as exc:
            text = f"the queued jobs of {name} cannot be listed, so a wrong label is not noticed: {exc}"
            return [Finding(LABELS, Health.WARNING, text, exc.remedy or "Try again.")]
        for job in jobs:
            if (wrong := mistake(job.labels, list(rules))) is not None:
                found.setdefault(wrong, name)
    if not found:
        return [Finding(LABELS, Health.OK, f"every queued job of {', '.join(names)} that names a scale set can run")]
    texts = [f"{wrong.what}: {', '.join(wrong.labels)}, in {repository}" for wrong, repository in found.items()]
    remedies = dict.fromkeys(wrong.remedy(tables(settings)) for wrong in found)
    return [Finding(LABELS, Health.WARNING, "; ".join(texts), " ".join(remedies))]
