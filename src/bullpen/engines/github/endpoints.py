"""What a call of GitHub is counted as: its method, and the fixed words of its path.

Owners, repositories and ids are left out, so that there are as many names as endpoints.
"""

from bullpen.engines.github.answers import GithubCall
from bullpen.ports.traffic import OTHER

SERVICE = "github"
SCOPES = {"repos": 3, "orgs": 2}  # the scope's part of a path: `repos/OWNER/NAME`
WORDS = frozenset(
    {
        *("actions", "jobs", "runners", "runner-groups", "runs", "attempts", "releases", "repositories", "rate_limit"),
        *("cancel", "rerun", "rerun-failed-jobs", "deployments", "statuses"),
        *("generate-jitconfig", "registration-token", "remove-token", "runner-registration"),
        *("app", "installation", "installations", "access_tokens"),
        *("_apis", "runtime", "runnerscalesets", "runnergroups", "agents", "sessions"),
        *("acquirejobs", "generatejitconfig"),
    }
)


def endpoint(call: GithubCall) -> str:
    """Such as `GET actions/runners`."""
    if call.path.startswith("/message"):
        return f"{call.method} messages"
    first, *others = call.path.strip("/").split("/")
    known = [word for word in [first, *others][SCOPES.get(first, 0) :] if word in WORDS]
    if known:
        return f"{call.method} {'/'.join(known)}"
    return f"{call.method} {first if first in SCOPES else OTHER}"
