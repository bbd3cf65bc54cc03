"""The answer of `bullpen plan` as text."""

from collections.abc import Iterator

from bullpen.cli.text import DEEPER, columns, plural, table, wrapped
from bullpen.schema.plan import PlanAnswer, PlannedLaunch, PlannedTarget

INDENT = "  "
LISTED = 10  # instances of each kind; --json lists more


def plan_text(found: PlanAnswer, width: int) -> str:
    """Every section that has something to say. `width` is that of the terminal, 0 for any."""
    return "\n".join(line for section in _sections(found, width) for line in section)


def _sections(found: PlanAnswer, width: int) -> Iterator[list[str]]:
    yield wrapped(_headline(found), width, DEEPER)
    if found.blocked_by is not None:
        blocked = found.blocked_by
        yield wrapped(f"{INDENT}blocked: {blocked.cause.value}: {blocked.because}", width, DEEPER)
        yield wrapped(f"{INDENT}{blocked.next}", width, DEEPER)
    if found.serving:
        yield wrapped(f"{INDENT}serve already: {_some(found.serving)}", width, DEEPER)
    if found.would_claim:
        yield [f"{INDENT}would claim:"]
        rows = [(one.instance_id, one.instance_type, one.usage_class.value) for one in found.would_claim[:LISTED]]
        yield columns(rows, indent=INDENT * 2).splitlines()
        yield _more(len(found.would_claim) - LISTED)
    if found.would_end:
        yield wrapped(f"{INDENT}would end idle ones to make room: {_some(found.would_end)}", width, DEEPER)
    if found.would_launch is not None:
        yield wrapped(f"{INDENT}would launch: {_launch_text(found.would_launch)}", width, DEEPER)
    if found.refused:
        counts = ", ".join(f"{one.count} {one.rule.value}" for one in found.refusals)
        yield wrapped(f"{INDENT}not claimed: {counts}", width, DEEPER)
        rows_of = [(one.instance_id, one.state.value, one.rule.value, one.detail) for one in found.refused[:LISTED]]
        titles = ["INSTANCE", "STATE", "RULE", "DETAIL"]
        room = max(width - 2 * len(INDENT), 20) if width else 0
        shown = table(titles, rows_of, room, ["STATE"], ("INSTANCE",), wraps=True)
        yield [INDENT * 2 + line for line in shown.splitlines()]
        yield _more(len(found.refused) - LISTED)
    yield wrapped(f"{INDENT}price: {_price_text(found)}", width, DEEPER)
    for cap in found.caps:
        then = "afterwards" if cap.after <= cap.limit else "needed"
        yield wrapped(f"{INDENT}{cap.setting} is {cap.limit}: {cap.now} now, {cap.after} {then}", width, DEEPER)
    yield wrapped(f"{INDENT}on offer: {_target_text(found.idle_target)}", width, DEEPER)


def _headline(found: PlanAnswer) -> str:
    launched = found.would_launch.count if found.would_launch is not None else 0
    serving = f"{len(found.serving)} serve already, " if found.serving else ""
    would = f"{len(found.would_claim)} would be claimed, {launched} launched"
    if found.blocked_by is not None:
        would = f"{len(found.would_claim)} could be claimed, {launched} would have to be launched"
    return f"{found.run_id}: {plural(found.requested, 'runner')} asked for: {serving}{would}"


def _launch_text(launch: PlannedLaunch) -> str:
    types = " ".join(launch.types)
    least = f"at least {plural(launch.cpu, 'processor')} and {launch.mem} MiB"
    return (
        f"{launch.count} of class {launch.resource_class}, {launch.usage_class.value}, types {types}, {least}, image"
        f" generation {launch.image_generation}"
    )


def _price_text(found: PlanAnswer) -> str:
    if found.price_per_hour is not None:
        return f"${found.price_per_hour:.4f} per hour for all runners"
    missing = f": no price for {', '.join(found.missing_prices)}" if found.missing_prices else ""
    return f"not known{missing}"


def _target_text(target: PlannedTarget) -> str:
    entry = f" ({target.entry})" if target.entry else ""
    change = f", then {target.next_target} from {target.next_target_at}" if target.next_target_at else ""
    return f"{target.now} now, {target.after} afterwards; the idle target is {target.target}{entry}{change}"


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - LISTED} more" if len(ids) > LISTED else ""
    return f"{', '.join(ids[:LISTED])}{more}"


def _more(count: int) -> list[str]:
    return [f"{INDENT * 2}and {count} more, see --json"] if count > 0 else []
