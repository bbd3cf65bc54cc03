"""The check of `doctor` on the labels of queued jobs: one that seems to ask for a scale set asks for what a set has. It
changes nothing."""

from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.ports import Ports
from bullpen.ports.health import Finding, Health
from bullpen.scale_sets.queued_labels import MistakenLabels, mistake
from bullpen.scale_sets.rules import rules_of, tables

NAME = "set labels"
REPOSITORIES, RUNS = 3, 10  # that are looked at, and runs of each: at most 36 requests


async def check_set_labels(ports: Ports, settings: Settings) -> list[Finding]:
    """One finding for all sets; none if no set names a repository. Never raises a BullpenError."""
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
            return [Finding(NAME, Health.WARNING, text, exc.remedy or "Try again.")]
        for job in jobs:
            if (wrong := mistake(job.labels, list(rules))) is not None:
                found.setdefault(wrong, name)
    if not found:
        return [Finding(NAME, Health.OK, f"every queued job of {', '.join(names)} that names a scale set can run")]
    texts = [f"{wrong.what}: {', '.join(wrong.labels)}, in {repository}" for wrong, repository in found.items()]
    remedies = dict.fromkeys(wrong.remedy(tables(settings)) for wrong in found)
    return [Finding(NAME, Health.WARNING, "; ".join(texts), " ".join(remedies))]
