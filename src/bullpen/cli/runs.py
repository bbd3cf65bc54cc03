"""The run that an option names, by its id or by the URL of its page at GitHub, and the label of its runners."""

import re
from dataclasses import dataclass

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.model.label import Label, parse
from bullpen.model.limits import REPOSITORY, RUN_ID_LENGTH, is_word, word_allowed
from bullpen.settings.redaction import shortened

PAGE = re.compile(
    rf"(?P<host>https?://[^?#\s]+?)/(?P<repository>{REPOSITORY})/actions/runs/(?P<run>[1-9][0-9]{{0,19}})"
    r"(/attempts/(?P<attempt>[1-9][0-9]{0,3}))?(/job/[0-9]+)?/?([?#]\S*)?",
    re.ASCII,
)
LABELS = {"run": (False, False), "attempt": (True, False), "class": (False, True), "attempt-class": (True, True)}
"""The values of --label-by, and whether attempt and class are part of the label."""


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run as the user named it. The other fields are empty unless a URL contained them."""

    id: str
    repository: str = ""
    attempt: int = 0
    host: str = ""


def named_run(text: str) -> NamedRun:
    """Raise ConfigError for text that is neither a run id nor the URL of a run's page."""
    if page := PAGE.fullmatch(text):
        return NamedRun(page["run"], page["repository"], int(page["attempt"] or 0), page["host"])
    if text.startswith(("http://", "https://")):
        allowed = "the URL of a workflow run, such as https://github.com/acme/widgets/actions/runs/4711"
        raise ConfigError(f"--run-id {shortened(text)}: must be {allowed}", field="--run-id")
    if not is_word(text, RUN_ID_LENGTH):
        found = f"{shortened(text)} ({len(text)} characters)" if len(text) > RUN_ID_LENGTH else shortened(text)
        raise ConfigError(f"--run-id {found}: must be {word_allowed(RUN_ID_LENGTH)}", field="--run-id")
    return NamedRun(text)


def label_of(settings: Settings, run: NamedRun, label_by: str, attempt: int, resource_class: str) -> str:
    """The label that the run's jobs name in `runs-on`. `attempt` is 0 if the user gave none."""
    by_attempt, by_class = LABELS[label_by]
    if not by_attempt and not by_class:
        if settings.on_github and parse(run.id) is None:
            allowed = "the number of a workflow run, a label that begins with it, or the URL of the run's page"
            raise ConfigError(f"--run-id {shortened(run.id)}: must be {allowed} (engines.ci)", field="--run-id")
        label = run.id
    elif parse(run.id) != Label(run.id):
        raise ConfigError(
            f"--run-id {shortened(run.id)}: must be the number of a workflow run with --label-by {label_by}",
            field="--run-id",
        )
    else:
        if by_attempt and not (attempt or run.attempt):
            remedy = "In a workflow it is ${{ github.run_attempt }}."
            raise ConfigError(f"--attempt: is required with --label-by {label_by}", remedy=remedy, field="--attempt")
        label = str(Label(run.id, attempt or run.attempt if by_attempt else 0, resource_class if by_class else ""))
    if attempt and not by_attempt:
        remedy = "Add --label-by attempt and name that label in runs-on; or remove --attempt."
        raise ConfigError(
            f"--attempt {attempt}: is not part of the label with --label-by {label_by}",
            remedy=remedy,
            field="--attempt",
        )
    if attempt and run.attempt not in (0, attempt):
        remedy = "Remove --attempt, or correct the URL."
        raise ConfigError(f"--attempt {attempt}: the URL names attempt {run.attempt}", remedy=remedy, field="--attempt")
    return label


def repository_of(settings: Settings, run: NamedRun, given: str) -> str:
    """The repository of the run: from --repository, from the URL, or from a scope that is one repository.

    Raise ConfigError if none of them names it: Bullpen could not query the run, and its runners would stay until their
    threshold.
    """
    if given and not re.fullmatch(REPOSITORY, given, re.ASCII):
        raise ConfigError(f"--repository {shortened(given)}: must be owner/name", field="--repository")
    if given and run.repository and given.lower() != run.repository.lower():
        raise ConfigError(
            f"--repository {given}: the URL names {run.repository}",
            remedy="Remove --repository, or correct the URL.",
            field="--repository",
        )
    scope, found = settings.github.scope, given or run.repository
    if not settings.on_github:
        return found
    if run.host and run.host.lower() != settings.github.url.rstrip("/").lower():
        raise ConfigError(
            f"--run-id {run.host}/…: must be a run at {settings.github.url} (github.url)", field="--run-id"
        )
    if found and scope.lower() not in (found.lower(), found.lower().partition("/")[0]):
        option = "--repository" if given else "--run-id"
        raise ConfigError(
            f"{option} {found}: must be in {scope} (github.scope), where the pool's runners register", field=option
        )
    if not found and "/" not in scope:
        remedy = "Add --repository owner/name, or name the run by the URL of its page."
        raise ConfigError(
            "--repository: is required, because github.scope is an organisation", remedy=remedy, field="--repository"
        )
    return found or scope
