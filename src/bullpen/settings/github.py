"""Validation of the `[github]` settings, and of those that must match them, before the first call of GitHub."""

import re
from collections.abc import Iterator
from typing import Any

from bullpen.config import Github, Settings
from bullpen.model.label import AMBIGUOUS
from bullpen.model.limits import OWNER, REPOSITORY
from bullpen.settings.redaction import shortened

URL = r"https?://[^/?#@\s]+(/[^?#\s]*)?"
POOL = r"[A-Za-z][A-Za-z0-9-]{0,31}"
SHORTEST_ROTATION, LONGEST_ROTATION = 60, 3540  # seconds
NEEDED = 'it is required with engines.ci = "github"'


def covers(scope: str, repository: str) -> bool:
    """Whether `owner/name` is in the scope of a pool: one repository, or all of an organisation. GitHub compares names
    without regard to case."""
    if re.fullmatch(REPOSITORY, repository) is None:
        return False
    owner, _, _ = repository.partition("/")
    return scope.casefold() in (repository.casefold(), owner.casefold())


def agent_settings(settings: Settings) -> dict[str, Any]:
    """What every agent receives about GitHub's runner, without secrets; empty if the runners execute Bullpen's own
    jobs. See `bullpen.agent.config`."""
    github = settings.github
    runner = {
        "ci": "github",
        "runner_directory": "" if github.runner_url else github.runner_directory,
        "runner_url": github.runner_url,
        "runner_sha256": github.runner_sha256 if github.runner_url else "",
    }
    return runner if settings.on_github else {}


def impossible_github(settings: Settings) -> Iterator[str]:
    """Errors in the settings that the GitHub engine uses."""
    github = settings.github
    if not re.fullmatch(f"{OWNER}|{REPOSITORY}", github.scope):
        yield f"github.scope ({shortened(github.scope)}) must be owner/repository or an organisation: {NEEDED}"
    yield from _impossible_credentials(github)
    for name, url in (("url", github.url), ("api-url", github.api_url), ("oidc-issuer", github.oidc_issuer)):
        if (url or name == "url") and not re.fullmatch(URL, url):
            yield f"github.{name} ({shortened(url)}) must be an http:// or https:// URL without credentials"
    if github.pool and not re.fullmatch(POOL, github.pool):
        yield f"github.pool ({shortened(github.pool)}) must be 1 to 32 letters, digits and dashes, the first a letter"
    if github.runner_group and "/" in github.scope:
        found = f"github.runner-group ({shortened(github.runner_group)})"
        yield f"{found} must be empty: only organisations have runner groups, and {github.scope} is a repository"
    if not github.oidc_audience:
        yield "github.oidc-audience ('') must not be empty: OIDC tokens for any other service would be accepted"
    if not SHORTEST_ROTATION <= github.token_rotation <= LONGEST_ROTATION:
        bounds = f"{SHORTEST_ROTATION} to {LONGEST_ROTATION}"
        yield f"github.token-rotation ({github.token_rotation:g}) must be {bounds}: GitHub's tokens last for an hour"
    yield from _impossible_runner(settings)
    for name in github.rescue:
        if name != "*" and not re.fullmatch(REPOSITORY, name):
            yield f'github.rescue has {shortened(name)}: must be owner/repository, or "*" for every repository'
    for name in settings.classes:
        if AMBIGUOUS.fullmatch(name):
            yield f"classes.{name}: must not look like an attempt: the label 4711-{name} would be ambiguous"


def _impossible_credentials(github: Github) -> Iterator[str]:
    """Errors in the credentials; messages name the settings, never the values."""
    if github.token and (github.app_id or github.private_key):
        yield "github.token and github.app-id with github.private-key are both set: remove one of them"
    elif not github.token and not (github.app_id and github.private_key):
        yield f"github.token, or github.app-id and github.private-key, must be set: {NEEDED}"
    if github.app_id and not re.fullmatch(r"[A-Za-z0-9.]{1,64}", github.app_id):
        yield f"github.app-id ({shortened(github.app_id)}) must be the id or client id of an App"


def _impossible_runner(settings: Settings) -> Iterator[str]:
    github = settings.github
    if github.runner_url and not re.fullmatch(URL, github.runner_url):
        yield f"github.runner-url ({shortened(github.runner_url)}) must be an http:// or https:// URL"
    if github.runner_url and not re.fullmatch(r"[0-9a-f]{64}", github.runner_sha256):
        yield f"github.runner-sha256 ({shortened(github.runner_sha256)}) must be the archive's SHA-256, 64 hex digits"
    if not github.runner_url and not github.runner_directory.startswith("/"):
        yield f"github.runner-directory ({shortened(github.runner_directory)}) must be an absolute path"
    if github.registration == "jit" and not settings.agent.serve_url:
        yield 'github.registration = "jit" needs agent.serve-url: the server creates each registration'
