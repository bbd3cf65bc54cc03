"""Authorization: what a caller may provision. Operators are trusted; a workflow run executes what its authors write.

identity         repository and trust domain are those of the run's token
label            of its own run; one that names a class must name the class that is asked for
duration         six hours, GitHub's default for a job, or timings.max-runtime if that is more
count            by limits.max-count, as for operators; and a few operations at once (`Operations.begin`)
machines         those that its class allows, as for operators
"""

from msgspec.structs import replace

from bullpen.auth.tokens import Operator, RunIdentity
from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.model import label as labels
from bullpen.model import limits
from bullpen.model.trust import bare
from bullpen.schema.requests import ProvisionRun
from bullpen.server.authentication import forbidden
from bullpen.settings.github import covers

LEAVE_IT_OUT = "Leave it out."


def entitled(settings: Settings, speaker: Operator | RunIdentity, label: str, data: ProvisionRun) -> ProvisionRun:
    """The request as it is carried out. Raise a 403 for what a workflow run may not ask for, ConfigError for a
    repository or a class that is none of the pool's."""
    if isinstance(speaker, RunIdentity):
        return _of_run(settings, speaker, label, data)
    if settings.on_github and data.repository and not covers(settings.github.scope, data.repository):
        text = f"repository {data.repository}: is outside github.scope ({settings.github.scope!r})"
        raise ConfigError(text, field="repository")
    if settings.on_github and not data.repository and "/" not in settings.github.scope:
        text = "repository: must be given, because github.scope is an organisation"
        raise ConfigError(text, field="repository")
    return data


def _of_run(settings: Settings, speaker: RunIdentity, label: str, data: ProvisionRun) -> ProvisionRun:
    if data.trust_domain not in (None, speaker.trust, bare(speaker.trust)):  # a bare name means the token's repository
        error = f"trustDomain: the token is for {speaker.trust}, and no other can be requested"
        raise forbidden(error, LEAVE_IT_OUT, "trustDomain")
    if data.repository.casefold() not in ("", speaker.repository.casefold()):
        error = f"repository: the token is for {speaker.repository}, and no other can be requested"
        raise forbidden(error, LEAVE_IT_OUT, "repository")
    parsed = labels.parse(label)
    if named := parsed.resource_class if parsed else "":
        if named != data.resource_class:
            error = f"label {label}: it names class {named}, and resourceClass is {data.resource_class}"
            raise forbidden(error, "Both must name the same class.")
        settings.resource_class(named)
    longest = max(limits.USUAL_JOB_SECONDS, settings.timings.max_runtime)
    if data.max_runtime_min is not None and 60.0 * data.max_runtime_min > longest:
        error = f"maxRuntimeMin {data.max_runtime_min}: with a run's token at most {longest / 60:.0f} minutes"
        remedy = "Ask for less, or have timings.max-runtime raised in the server's settings."
        raise forbidden(error, remedy, "maxRuntimeMin")
    return replace(data, trust_domain=speaker.trust, repository=speaker.repository)
