"""The permissions that Bullpen's calls need, by GitHub's names."""

from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Right:
    """A permission of a GitHub App or a fine-grained token, and the scope of a classic token that includes it."""

    key: str  # as the API spells it
    name: str  # as the page on which it is granted does
    level: str  # read or write
    classic: str
    holder: str = "repository"  # whose permission it is: a repository's or an organisation's

    def __str__(self) -> str:
        return f'{self.holder} permission "{self.name}: {self.level}" (of a classic token: the scope {self.classic})'

    def is_in(self, granted: dict[str, str]) -> bool:
        """Whether an App that was granted these has it: who may write may read."""
        return granted.get(self.key) in (("write", "admin") if self.level == "write" else ("read", "write", "admin"))


def runners(scope: str, level: str = "write") -> Right:
    """To make and remove runners, or to list them, where this scope has them."""
    if "/" in scope:
        return Right("administration", "Administration", level, "repo")
    return Right("organization_self_hosted_runners", "Self-hosted runners", level, "admin:org", "organisation")


READ_METADATA = Right("metadata", "Metadata", "read", "repo")
READ_RUNS = Right("actions", "Actions", "read", "repo")
WRITE_RUNS = Right("actions", "Actions", "write", "repo")
READ_DEPLOYMENTS = Right("deployments", "Deployments", "read", "repo_deployment")
