"""The URL of the page of a workflow run, or of one of its jobs, at GitHub."""

import re

from bullpen.lazy_dataclass import dataclass
from bullpen.model.limits import REPOSITORY

_PAGE = re.compile(
    rf"(?P<host>https?:/{{1,2}}[^/?#\s][^?#\s]*?)/(?P<repository>{REPOSITORY})/actions/runs/(?P<run>[1-9][0-9]{{0,19}})"
    r"(/attempts/(?P<attempt>[1-9][0-9]{0,3}))?(/jobs?/(?P<job>[1-9][0-9]{0,19}))?/?([?#]\S*)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class WorkflowPage:
    """`attempt` is 0, and `job` empty, where the URL does not name them."""

    host: str
    repository: str
    run: str
    attempt: int = 0
    job: str = ""

    @property
    def url(self) -> str:
        """Without what does not say which run and job it is."""
        run = f"{self.host}/{self.repository}/actions/runs/{self.run}"
        attempt = f"/attempts/{self.attempt}" if self.attempt else ""
        return run + attempt + (f"/job/{self.job}" if self.job else "")


def parse_page(text: str) -> WorkflowPage | None:
    """None for any other text. A proxy may have taken one of the two slashes behind the scheme."""
    found = _PAGE.fullmatch(text)
    if found is None:
        return None
    host = re.sub(r"^(https?):/+", r"\1://", found["host"])
    return WorkflowPage(host, found["repository"], found["run"], int(found["attempt"] or 0), found["job"] or "")
