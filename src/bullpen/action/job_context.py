"""The job in which the step runs: its run, attempt and repository, from the environment that GitHub sets."""

import re
from collections.abc import Mapping

from bullpen.action.input_specs import REFRESH
from bullpen.action.inputs import StepInputs
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.model.label import Label, parse
from bullpen.model.limits import REPOSITORY_ID


@dataclass(frozen=True, slots=True)
class JobContext:
    run: str
    attempt: int
    repository: str
    repository_id: int  # 0: not known, as on an old runner
    event: str
    ref: str
    actor: str
    server_url: str
    api_url: str


def job_of(environ: Mapping[str, str]) -> JobContext:
    """The context from the environment. Raise ConfigError outside of a workflow."""
    run, attempt = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_RUN_ATTEMPT", "1")
    repository, id = environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_REPOSITORY_ID", "")
    if parse(run) != Label(run) or not repository or not (attempt.isascii() and attempt.isdigit()):
        found = (
            f"GITHUB_RUN_ID {run[:40]!r}, GITHUB_RUN_ATTEMPT {attempt[:40]!r}, GITHUB_REPOSITORY {repository[:80]!r}"
        )
        remedy = "Use the action in a workflow; elsewhere use the `bullpen` command."
        raise ConfigError(f"{found}: not the environment of a workflow job", remedy=remedy)
    return JobContext(
        run,
        int(attempt),
        repository,
        int(id) if re.fullmatch(REPOSITORY_ID, id) else 0,
        environ.get("GITHUB_EVENT_NAME", ""),
        environ.get("GITHUB_REF", ""),
        environ.get("GITHUB_ACTOR", ""),
        environ.get("GITHUB_SERVER_URL", "https://github.com"),
        environ.get("GITHUB_API_URL", ""),
    )


def label_of(job: JobContext, asked: StepInputs) -> str:
    """The label to provision or release. Raise ConfigError if it is not a label of this run."""
    by = asked.get("label-by", "run")
    if asked.mode == REFRESH:
        return ""
    if "class" in by and "resource-class" not in asked.given and "label" not in asked.given:
        raise ConfigError(f"label-by {by}: requires resource-class", remedy="Set it in provision and in release.")
    attempt, kind = job.attempt if "attempt" in by else 0, asked.get("resource-class", "") if "class" in by else ""
    made = str(Label(job.run, attempt, kind))
    said = asked.get("label")
    if said is None or said == made:
        return made
    found = parse(said)
    if asked.mode == "provision" or "label-by" in asked.given:
        remedy = "Remove label; label-by selects the parts of the label."
        raise ConfigError(f"label {said!r}: the label of these runners is {made!r}", remedy=remedy)
    if found is None or not found.admits(job.run, job.attempt):
        remedy = "Use the output `label` of the step that provisioned the runners."
        raise ConfigError(f"label {said!r}: does not belong to run {job.run}", remedy=remedy)
    return str(said)
