"""Trust domain of a workflow run: is its code certainly the repository's own, or perhaps a stranger's?"""

TRUSTED = ("push", "schedule", "workflow_dispatch", "repository_dispatch", "merge_group", "release")
"""Events that only users with write access trigger, and that run code of the repository."""
DEPENDABOT = "dependabot[bot]"


def trust_domain(repository: str, event: str, ref: str, actor: str) -> str:
    """The trust domain of a run: that of its repository, if its code is certainly the repository's own.

    A run that a pull request, a comment, or the end of another run triggers may execute code that a stranger wrote, and
    a run of Dependabot executes code that a stranger published. These and every unknown event get a domain of their
    own. No other domain reuses its machines, unless `trust.inherits` allows it. (A pull request from a fork gets no
    token from GitHub anyway.)
    """
    is_own = event in TRUSTED and ref.startswith(("refs/heads/", "refs/tags/")) and actor not in ("", DEPENDABOT)
    return repository if is_own else f"{repository}#pull-request"
