"""Which pages of GitHub a question about this pool may name: those of runs that its runners can serve."""

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.model.workflow_page import WorkflowPage
from bullpen.settings.github import covers


def check_page(settings: Settings, page: WorkflowPage, named: str = "subject") -> None:
    """Raise ConfigError for a page of another host or repository: GitHub is not asked about what this pool does not
    serve. `named` is what the caller calls the URL."""
    what = "job" if page.job else "run"
    if not settings.on_github:
        if not page.job:
            return  # the run of a pool with jobs of its own may have the number of a workflow run
        raise ConfigError(
            f"{named} {page.url}: is a job of GitHub, and this pool runs its own jobs (engines.ci)",
            remedy="Name a job of this pool by its id: `bullpen job list` prints them.",
            field=named,
            value=page.url,
            allowed="the id of a record",
        )
    url, scope = settings.github.url.rstrip("/"), settings.github.scope
    if page.host.lower() != url.lower():
        raise ConfigError(
            f"{named} {page.url}: must be a {what} at {url} (github.url)",
            remedy=f"Copy the URL of the {what} from its page.",
            field=named,
            value=page.url,
            allowed=f"a {what} at {url}",
        )
    if not covers(scope, page.repository):
        raise ConfigError(
            f"{named} {page.url}: must be a {what} in {scope} (github.scope), where the pool's runners register",
            remedy="Ask the pool that serves the repository.",
            field=named,
            value=page.url,
            allowed=f"a {what} in {scope}",
        )
