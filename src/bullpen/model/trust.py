"""Whose work a workflow run does: the repository's own people's, or perhaps a stranger's."""

TRUSTED = ("push", "schedule", "workflow_dispatch", "repository_dispatch", "merge_group", "release")
"""Events that only people who may write to the repository set off, and that run what is in it."""
DEPENDABOT = "dependabot[bot]"


def trust_domain(repository: str, event: str, ref: str, actor: str) -> str:
    """The trust domain of a run: its repository's, if what it executes is certainly the repository's own.

    A run set off by a pull request, by a comment, or by the end of another run may execute what a stranger wrote, and
    one of Dependabot's executes what a stranger published: these and every event that we do not know get a domain of
    their own. Its machines are taken over by nobody else, unless `trust.inherits` says so. (A pull request from a fork
    gets no token from GitHub in the first place.)
    """
    is_own = event in TRUSTED and ref.startswith(("refs/heads/", "refs/tags/")) and actor not in ("", DEPENDABOT)
    return repository if is_own else f"{repository}#pull-request"
