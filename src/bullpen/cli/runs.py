"""The run that an option names, by its id or by the URL of its page at GitHub, and the label of its runners."""

import re

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.model.label import Label, parse
from bullpen.model.limits import REPOSITORY, RUN_ID_LENGTH, SUBJECT_LENGTH, is_run_id, run_id_allowed
from bullpen.model.workflow_page import parse_page
from bullpen.settings.redaction import shortened
from bullpen.settings.workflow_pages import check_page

LABELS = {"run": (False, False), "attempt": (True, False), "class": (False, True), "attempt-class": (True, True)}
"""The values of --label-by, and whether attempt and class are part of the label."""


def refusal(option: str, says: str, value: str = "", remedy: str = "") -> ConfigError:
    """The error of an option, or of its value, which must be shortened already."""
    return ConfigError(f"{option} {value}: {says}" if value else f"{option}: {says}", remedy=remedy, field=option)


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run as the user named it. The other fields are empty unless a URL contained them."""

    id: str
    repository: str = ""
    attempt: int = 0
    host: str = ""


def named_run(text: str) -> NamedRun:
    """Raise ConfigError for text that is neither a run id nor the URL of a run's page."""
    if (page := parse_page(text)) is not None:
        return NamedRun(page.run, page.repository, page.attempt, page.host)
    if text.startswith(("http://", "https://")):
        allowed = "the URL of a workflow run, such as https://github.com/acme/widgets/actions/runs/4711"
        raise refusal("--run-id", f"must be {allowed}", shortened(text))
    if not is_run_id(text):
        found = f"{shortened(text)} ({len(text)} characters)" if len(text) > RUN_ID_LENGTH else shortened(text)
        raise refusal("--run-id", f"must be {run_id_allowed()}", found)
    return NamedRun(text)


def checked_subject(settings: Settings | None, text: str) -> str:
    """What `bullpen why` is asked about: the id of any record, a run by the URL of its page, or a job by the URL of
    its page. Raise ConfigError."""
    if not text.startswith(("http://", "https://")):
        if not text or not text.isprintable() or " " in text:
            remedy = "Run `bullpen status` to list the instances."
            raise refusal("ID", "must be printable characters without spaces", shortened(text), remedy)
        if len(text) > SUBJECT_LENGTH:
            says = f"must be at most {SUBJECT_LENGTH} characters"
            raise refusal("ID", says, f"{shortened(text)} ({len(text)} characters)")
        return text
    page = parse_page(text)
    if page is None:
        allowed = "the URL of a workflow run or of one of its jobs"
        example = "such as https://github.com/acme/widgets/actions/runs/4711/job/99"
        raise refusal("ID", f"must be an id, or {allowed}, {example}", shortened(text))
    if settings is not None:
        check_page(settings, page, "ID")
    return page.url if page.job or settings is None else page.run  # a server checks the URL by its own settings


def label_of(settings: Settings | None, run: NamedRun, label_by: str, attempt: int, resource_class: str) -> str:
    """The label that the run's jobs name in `runs-on`. `attempt` is 0 if the user gave none."""
    by_attempt, by_class = LABELS[label_by]
    if not by_attempt and not by_class:
        if settings and settings.on_github and parse(run.id) is None:
            allowed = "the number of a workflow run, a label that begins with it, or the URL of the run's page"
            raise refusal("--run-id", f"must be {allowed} (engines.ci)", shortened(run.id))
        label = run.id
    elif parse(run.id) != Label(run.id):
        allowed = f"the number of a workflow run with --label-by {label_by}"
        raise refusal("--run-id", f"must be {allowed}", shortened(run.id))
    else:
        if by_attempt and not (attempt or run.attempt):
            remedy = "In a workflow it is ${{ github.run_attempt }}."
            raise refusal("--attempt", f"is required with --label-by {label_by}", remedy=remedy)
        label = str(Label(run.id, attempt or run.attempt if by_attempt else 0, resource_class if by_class else ""))
    if attempt and not by_attempt:
        remedy = "Add --label-by attempt and name that label in runs-on; or remove --attempt."
        raise refusal("--attempt", f"is not part of the label with --label-by {label_by}", str(attempt), remedy)
    if attempt and run.attempt not in (0, attempt):
        remedy = "Remove --attempt, or correct the URL."
        raise refusal("--attempt", f"the URL names attempt {run.attempt}", str(attempt), remedy)
    return label


def repository_of(settings: Settings | None, run: NamedRun, given: str) -> str:
    """The repository of the run: from --repository, from the URL, or from a scope that is one repository.

    Raise ConfigError if none of them names it: Bullpen could not query the run, and its runners would stay until their
    threshold. Without settings, a server checks this by its own.
    """
    if given and not re.fullmatch(REPOSITORY, given, re.ASCII):
        raise refusal("--repository", "must be owner/name", shortened(given))
    if given and run.repository and given.lower() != run.repository.lower():
        remedy = "Remove --repository, or correct the URL."
        raise refusal("--repository", f"the URL names {run.repository}", given, remedy)
    found = given or run.repository
    if settings is None or not settings.on_github:
        return found
    scope = settings.github.scope
    if run.host and run.host.lower() != settings.github.url.rstrip("/").lower():
        raise refusal("--run-id", f"must be a run at {settings.github.url} (github.url)", f"{run.host}/…")
    if found and scope.lower() not in (found.lower(), found.lower().partition("/")[0]):
        option = "--repository" if given else "--run-id"
        raise refusal(option, f"must be in {scope} (github.scope), where the pool's runners register", found)
    if not found and "/" not in scope:
        remedy = "Add --repository owner/name, or name the run by the URL of its page."
        raise refusal("--repository", "is required, because github.scope is an organisation", remedy=remedy)
    return found or scope
