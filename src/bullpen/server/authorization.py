"""What may be asked for, and in whose name. Operators are trusted; a workflow run runs what its authors write.

who it is        its token says: repository and trust domain are not for it to choose
label            of its own run, and of a class only if that is the class it asks for, and configured
how long         six hours, as GitHub gives a job that says nothing else, or timings.max-runtime if that is more
how many         count as everybody's, by limits.max-count; and a few operations at once (`Operations.begin`)
which machines   those that its class allows, as everybody's
"""

from msgspec.structs import replace

from bullpen.auth.tokens import Operator, RunIdentity
from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.model import label as labels
from bullpen.schema.requests import ProvisionRun
from bullpen.server.authentication import forbidden
from bullpen.settings.github import covers

LONGEST = 6 * 3600.0  # seconds for which a run may hold runners that it asks for itself
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
        text = "repository: must be given, as github.scope is an organisation: whose run is it?"
        raise ConfigError(text, field="repository")
    return data


def _of_run(settings: Settings, speaker: RunIdentity, label: str, data: ProvisionRun) -> ProvisionRun:
    if data.trust_domain not in (None, speaker.trust):
        raise forbidden(
            f"trustDomain: the token's own is {speaker.trust}, and no other can be asked for",
            LEAVE_IT_OUT,
            "trustDomain",
        )
    if data.repository.casefold() not in ("", speaker.repository.casefold()):
        raise forbidden(
            f"repository: the token's own is {speaker.repository}, and no other can be asked for",
            LEAVE_IT_OUT,
            "repository",
        )
    parsed = labels.parse(label)
    if named := parsed.resource_class if parsed else "":
        if named != data.resource_class:
            raise forbidden(
                f"label {label}: it names class {named}, and resourceClass is {data.resource_class}",
                remedy="Both must name the same class.",
            )
        settings.resource_class(named)
    longest = max(LONGEST, settings.timings.max_runtime)
    if data.max_runtime_min is not None and 60.0 * data.max_runtime_min > longest:
        raise forbidden(
            f"maxRuntimeMin {data.max_runtime_min}: a run's token is given {longest / 60:.0f} minutes at most",
            remedy="Ask for less, or have timings.max-runtime raised in the server's settings.",
            field="maxRuntimeMin",
        )
    return replace(data, trust_domain=speaker.trust, repository=speaker.repository)
