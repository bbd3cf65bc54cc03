"""The scope of a pool: one repository, or all of an organisation."""

import re

from bullpen.settings.github import REPOSITORY


def covers(scope: str, repository: str) -> bool:
    """Whether `owner/name` is inside. GitHub tells no capital letters from small ones."""
    if re.fullmatch(REPOSITORY, repository) is None:
        return False
    owner, _, _ = repository.partition("/")
    return scope.casefold() in (repository.casefold(), owner.casefold())
