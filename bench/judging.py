"""How many tickets a second one process parses and judges."""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from bench.table import Measurement, Row, row
from bullpen.model.ticket import Malformed, Requirements, Ticket, UsageClass, Verdict, judge, parse_ticket

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NEEDS = Requirements("small", UsageClass.ON_DEMAND, allowed_types=("local.*", "c6*.large"), cpu=1, mem=1024)


def judged(sizes: Sequence[int] = (1000, 10_000, 50_000)) -> Iterator[Row]:
    for size in sizes:
        bodies = [_body(number) for number in range(size)]
        began = time.process_time()  # it is all computing: what else this machine does is not to count
        taken = sum(_takes(body) for body in bodies)
        lasted = time.process_time() - began
        assert taken == sum(number % 5 == 0 for number in range(size))
        yield row(f"tickets judged, {size:,}", size / lasted, "tickets/s", "≥ 10000")


def _takes(body: str) -> bool:
    ticket = parse_ticket(body)
    return not isinstance(ticket, Malformed) and judge(ticket, NEEDS, 1, 1024, NOW) is Verdict.TAKE


def _body(number: int) -> str:
    """Each fifth fits; the others are of another type, expired, of another domain or no ticket at all."""
    kind = number % 5
    ticket = Ticket(
        instance_id=f"i-{number:016x}",
        usage_class=UsageClass.ON_DEMAND,
        instance_type="m7g.large" if kind == 1 else "local.small",
        cpu=2,
        mem=4096,
        resource_class="small",
        threshold=NOW + timedelta(seconds=-1 if kind == 2 else 420),
        version=number,
        trust_domain="strangers" if kind == 3 else "default",
        image_generation=1,
    )
    return ticket.to_json()[: 100 if kind == 4 else None]


MEASUREMENTS = (Measurement("tickets judged", judged),)
