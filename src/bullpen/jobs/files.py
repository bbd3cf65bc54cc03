"""Which runners can run jobs with files."""

from collections.abc import Sequence

from bullpen.model.instance import Instance
from bullpen.ports import Ports

STARTS = 10  # workers of one instance looked at: each start of its agent makes one


async def unable(ports: Ports, runners: Sequence[Instance]) -> list[Instance]:
    """Those whose agent is of an earlier version: it takes no job with a source or artifacts. One that has not beaten
    yet is not among them."""
    found = []
    for runner in runners:
        listed = await ports.workers.listed(STARTS, after=f"{runner.id}/")
        workers = [one.id for one in listed if one.instance_id == runner.id]
        cards = await ports.workers.cards(workers)
        if cards and not any(card.handles_files for card in cards.values()):
            found.append(runner)
    return found
