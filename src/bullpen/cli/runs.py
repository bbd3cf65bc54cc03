"""Which run is meant: by its id, by the address of its page at GitHub, and the label of its runners that follows."""

import re
from dataclasses import dataclass

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.model.label import Label, parse
from bullpen.settings.github import REPOSITORY
from bullpen.settings.redaction import shortened

RUN_ID_LIMIT = 128  # characters: a run id is also a label at the CI
MOST_ATTEMPTS = 9999
PAGE = re.compile(
    rf"(?P<host>https?://[^?#\s]+?)/(?P<repository>{REPOSITORY})/actions/runs/(?P<run>[1-9][0-9]{{0,19}})"
    r"(/attempts/(?P<attempt>[1-9][0-9]{0,3}))?(/job/[0-9]+)?/?([?#]\S*)?",
    re.ASCII,
)
LABELS = {"run": (False, False), "attempt": (True, False), "class": (False, True), "attempt-class": (True, True)}
"""What --label-by may say, and whether attempt and class are part of the label then."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it was named: the rest is empty unless an address said it."""

    id: str
    repository: str = ""
    attempt: int = 0
    host: str = ""


def named_run(text: str) -> Run:
    """Raise ConfigError for what is neither the id nor the page of a run."""
    if page := PAGE.fullmatch(text):
        return Run(page["run"], page["repository"], int(page["attempt"] or 0), page["host"])
    if text.startswith(("http://", "https://")):
        allowed = "the page of a workflow run, such as https://github.com/acme/widgets/actions/runs/4711"
        raise ConfigError(f"--run-id {shortened(text)}: must be {allowed}")
    if not 1 <= len(text) <= RUN_ID_LIMIT or not text.isprintable() or " " in text:
        found = f"{shortened(text)} ({len(text)} characters)" if len(text) > RUN_ID_LIMIT else shortened(text)
        raise ConfigError(f"--run-id {found}: must be 1 to {RUN_ID_LIMIT} printable characters without spaces")
    return Run(text)


def label_of(settings: Settings, run: Run, label_by: str, attempt: int, resource_class: str) -> str:
    """What the run's jobs ask for in `runs-on`. `attempt` is 0 if none was given."""
    by_attempt, by_class = LABELS[label_by]
    if not by_attempt and not by_class:
        if settings.on_github and parse(run.id) is None:
            allowed = "a workflow run's number, a label that begins with it, or the address of its page"
            raise ConfigError(f"--run-id {shortened(run.id)}: must be {allowed} (engines.ci)")
        label = run.id
    elif parse(run.id) != Label(run.id):
        raise ConfigError(f"--run-id {shortened(run.id)}: must be a workflow run's number for --label-by {label_by}")
    else:
        if by_attempt and not (attempt or run.attempt):
            raise ConfigError(f"--attempt: must be given for --label-by {label_by}: it is github.run_attempt")
        label = str(Label(run.id, attempt or run.attempt if by_attempt else 0, resource_class if by_class else ""))
    if attempt and not by_attempt:
        remedy = "Say --label-by attempt too, and ask for that label in runs-on; or leave --attempt out."
        raise ConfigError(f"--attempt {attempt}: has no place in --label-by {label_by}", remedy=remedy)
    if attempt and run.attempt not in (0, attempt):
        raise ConfigError(f"--attempt {attempt}: the address names attempt {run.attempt}")
    return label


def repository_of(settings: Settings, run: Run, given: str) -> str:
    """Whose run it is: as said, as the address says, or as the scope leaves no choice.

    Raise ConfigError where nobody says: nobody could ask after such a run, and its runners would stay for long.
    """
    if given and not re.fullmatch(REPOSITORY, given, re.ASCII):
        raise ConfigError(f"--repository {shortened(given)}: must be owner/name")
    if given and run.repository and given.lower() != run.repository.lower():
        raise ConfigError(f"--repository {given}: the address names {run.repository}")
    scope, found = settings.github.scope, given or run.repository
    if not settings.on_github:
        return found
    if run.host and run.host.lower() != settings.github.url.rstrip("/").lower():
        raise ConfigError(f"--run-id {run.host}/…: must be a run at {settings.github.url} (github.url)")
    if found and scope.lower() not in (found.lower(), found.lower().partition("/")[0]):
        option = "--repository" if given else "--run-id"
        raise ConfigError(f"{option} {found}: must be in {scope} (github.scope), where our runners register")
    if not found and "/" not in scope:
        remedy = "Say --repository owner/name, or name the run by the address of its page."
        raise ConfigError("--repository: must be given, as github.scope is an organisation", remedy=remedy)
    return found or scope
