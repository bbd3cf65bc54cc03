"""Ticket: an idle instance on offer, as it travels through a pool queue; and how a run judges one.

A ticket is a hint. It may be lost, doubled, stale or forged; the conditional claim on the record decides. On the wire
it is a JSON object with the seven fields of the pool format and three of Bullpen (version, trustDomain,
imageGeneration); the seven alone are valid too. Times are UTC, whole seconds, `Z`.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

from bullpen.lazy_dataclass import dataclass
from bullpen.model.limits import NUMBER

TICKET_LIMIT = 4096
"""Characters of the longest ticket that is read. Bullpen's have about 300; a longer one has another author."""


class UsageClass(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Ticket:
    """An idle instance on offer until `threshold`. `version` is None on a ticket of the seven plain fields."""

    instance_id: str
    usage_class: UsageClass
    instance_type: str
    cpu: int
    mem: int
    resource_class: str
    threshold: datetime
    version: int | None = None
    trust_domain: str = ""
    image_generation: int | None = None

    def to_json(self) -> str:
        body: dict[str, str | int] = {
            "instanceId": self.instance_id,
            "usageClass": self.usage_class.value,
            "instanceType": self.instance_type,
            "cpu": self.cpu,
            "mem": self.mem,
            "resourceClass": self.resource_class,
            "threshold": format_time(self.threshold),
        }
        if self.version is not None:
            body["version"] = self.version
            body["trustDomain"] = self.trust_domain
        if self.image_generation is not None:
            body["imageGeneration"] = self.image_generation
        return json.dumps(body, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Malformed:
    """A message that is no ticket, and why."""

    reason: str


def parse_ticket(body: str) -> Ticket | Malformed:
    """Read a message of the pool queue. Unknown fields are ignored."""
    if len(body) > TICKET_LIMIT:
        return Malformed(f"{len(body)} characters, at most {TICKET_LIMIT}")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return Malformed("not JSON")
    if not isinstance(found, dict):
        return Malformed("not a JSON object")
    try:
        return Ticket(
            instance_id=_text(found, "instanceId"),
            usage_class=UsageClass(_text(found, "usageClass")),
            instance_type=_text(found, "instanceType"),
            cpu=_count(found, "cpu"),
            mem=_count(found, "mem"),
            resource_class=_text(found, "resourceClass"),
            threshold=parse_time(_text(found, "threshold")),
            version=_count(found, "version") if "version" in found else None,
            trust_domain=_text(found, "trustDomain", empty=True) if "trustDomain" in found else "",
            image_generation=_count(found, "imageGeneration") if "imageGeneration" in found else None,
        )
    except (ValueError, OverflowError) as exc:  # overflow: a time that is in no year once it is in UTC
        return Malformed(str(exc))


def _text(found: dict[str, object], name: str, *, empty: bool = False) -> str:
    value = found.get(name)
    # Not printable are control characters and half surrogates, which JSON can spell and no store takes.
    if not isinstance(value, str) or not (value or empty) or not value.isprintable():
        raise ValueError(f"{name} is {value!r}, not a text")
    return value


def _count(found: dict[str, object], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or value >= NUMBER:
        raise ValueError(f"{name} is {value!r}, not a whole number from 0")
    return value


def format_time(at: datetime) -> str:
    """UTC, whole seconds, `Z`. Cut, not rounded: a threshold on the wire is never later than the record's."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"time {text!r} names no time zone")
    return at.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a run asks of an instance. `cpu` and `mem` are minimums; patterns are any-of; `inherits` names the trust
    domains whose used instances this run may take besides its own and never-used ones. `repository` is that of the run,
    where the CI is GitHub: it does not decide which instance fits.

    `fallback` are the usage classes that are as good where the requested one is not available. A record that was
    stored before this field existed has None: what its class falls back to is not known.
    """

    resource_class: str
    usage_class: UsageClass
    allowed_types: tuple[str, ...] = ("*",)
    cpu: int = 0
    mem: int = 0
    trust_domain: str = "default"
    inherits: tuple[str, ...] = ()
    image_generation: int = 1
    repository: str = ""
    fallback: tuple[UsageClass, ...] | None = None

    @property
    def acceptable_usage_classes(self) -> tuple[UsageClass, ...]:
        """The requested one first."""
        return tuple(dict.fromkeys((self.usage_class, *(self.fallback or ()))))

    @property
    def acceptable_domains(self) -> tuple[str, ...]:
        return ("", *dict.fromkeys((self.trust_domain, *self.inherits)))


class Verdict(StrEnum):
    TAKE = "take"
    PUT_BACK = "put back"
    DROP = "drop"


DRAINED_GENERATION = 0
"""Of an instance that an operator has drained: classes count theirs from 1, so no claim accepts it, in no process."""


class RefusalRule(StrEnum):
    """Why an instance does not serve a run: the rules that judge a ticket, then those of its state."""

    FITS = "fits"  # no rule refuses it
    EXPIRED = "expired"
    OTHER_CLASS = "other-class"
    CLASS_SIZE = "class-size"  # less than its class promises
    IMAGE_RETIRED = "image-retired"
    IMAGE_NEWER = "image-newer"
    USAGE_CLASS = "usage-class"
    INSTANCE_TYPE = "instance-type"
    CPU = "cpu"
    MEM = "mem"
    TRUST_DOMAIN = "trust-domain"
    # of its state
    CLEANING = "cleaning"
    BOOTING = "booting"
    TAKEN = "taken"  # it belongs to another run
    OCCUPIED = "occupied"  # it belongs to this run, and executes a job
    STARTING = "starting"  # it belongs to this run, and is not ready yet
    CAPABILITY = "capability"
    AVOIDED = "avoided"  # the job was lost or failed there
    SILENT = "silent"
    LEAVING = "leaving"  # its machine is about to be taken away


DROPPED_BY = (RefusalRule.EXPIRED, RefusalRule.OTHER_CLASS, RefusalRule.CLASS_SIZE, RefusalRule.IMAGE_RETIRED)
"""The rules under which a ticket fits no run at all."""


def judge(ticket: Ticket, needs: Requirements, class_cpu: int, class_mem: int, now: datetime) -> Verdict:
    """Decide on a ticket of the queue of its class, whose instances have at least `class_cpu` and `class_mem`.

    DROP what no run can use, PUT_BACK what fits others, TAKE what fits this run.
    """
    rule = refused_by(ticket, needs, class_cpu, class_mem, now)
    if rule is RefusalRule.FITS:
        return Verdict.TAKE
    return Verdict.DROP if rule in DROPPED_BY else Verdict.PUT_BACK


def refused_by(ticket: Ticket, needs: Requirements, class_cpu: int, class_mem: int, now: datetime) -> RefusalRule:
    """The first rule that refuses a ticket to a run; FITS if none does. `judge` goes by it."""
    generation = ticket.image_generation
    if ticket.threshold <= now:
        return RefusalRule.EXPIRED
    if ticket.resource_class != needs.resource_class:
        return RefusalRule.OTHER_CLASS
    if ticket.cpu < class_cpu or ticket.mem < class_mem:  # forged, or of another time: the class promises more
        return RefusalRule.CLASS_SIZE
    if generation is not None and generation != needs.image_generation:
        return RefusalRule.IMAGE_RETIRED if generation < needs.image_generation else RefusalRule.IMAGE_NEWER
    if ticket.usage_class not in needs.acceptable_usage_classes:
        return RefusalRule.USAGE_CLASS
    if not matches(ticket.instance_type, needs.allowed_types):
        return RefusalRule.INSTANCE_TYPE
    if ticket.cpu < needs.cpu:
        return RefusalRule.CPU
    if ticket.mem < needs.mem:
        return RefusalRule.MEM
    if ticket.trust_domain not in needs.acceptable_domains:
        return RefusalRule.TRUST_DOMAIN
    return RefusalRule.FITS


def detail_of(rule: RefusalRule, ticket: Ticket, needs: Requirements) -> str:
    """What a ticket has, and what the run asks for, where a rule compares both; empty where it does not."""
    match rule:
        case RefusalRule.EXPIRED:
            return f"its offer ended at {format_time(ticket.threshold)}"
        case RefusalRule.OTHER_CLASS:
            return f"{ticket.resource_class}; the run asks for {needs.resource_class}"
        case RefusalRule.IMAGE_RETIRED if ticket.image_generation == DRAINED_GENERATION:
            return "it is drained: it takes no new run"
        case RefusalRule.IMAGE_RETIRED | RefusalRule.IMAGE_NEWER:
            return f"image generation {ticket.image_generation}; the run asks for {needs.image_generation}"
        case RefusalRule.USAGE_CLASS:
            return f"{ticket.usage_class}; the run asks for {' or '.join(needs.acceptable_usage_classes)}"
        case RefusalRule.INSTANCE_TYPE:
            return f"{ticket.instance_type}; the run asks for {' '.join(needs.allowed_types)}"
        case RefusalRule.CPU | RefusalRule.CLASS_SIZE if ticket.cpu < needs.cpu:
            return f"{ticket.cpu} processors; the run asks for {needs.cpu}"
        case RefusalRule.MEM | RefusalRule.CLASS_SIZE if ticket.mem < needs.mem:
            return f"{ticket.mem} MiB; the run asks for {needs.mem}"
        case RefusalRule.CLASS_SIZE:
            return f"{ticket.cpu} processors and {ticket.mem} MiB, less than its class has"
        case RefusalRule.TRUST_DOMAIN:
            accepted = ", ".join(filter(None, needs.acceptable_domains)) or "an unused one"
            return f"used by trust domain {ticket.trust_domain}; the run accepts {accepted}"
        case _:
            return ""


def matches(instance_type: str, patterns: Iterable[str]) -> bool:
    """Any-of, anchored, case-insensitive, `*` only: the meaning of EC2's AllowedInstanceTypes."""
    return _compiled(tuple(patterns)).fullmatch(instance_type) is not None


def covers(patterns: Iterable[str], others: Iterable[str]) -> bool:
    """Whether each of the others matches no type that not one of the patterns alone matches too.

    A `*` in the text is matched by a `*` only, so a pattern covers another one if it matches it, read as a text.
    """
    patterns = tuple(patterns)
    return all(matches(other, patterns) for other in others)


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    one_of = (
        "".join(".*" if part.startswith("*") else re.escape(part) for part in re.split(r"(\*+)", p)) for p in patterns
    )
    return re.compile("|".join(one_of) if patterns else r"(?!)", re.IGNORECASE | re.DOTALL)
