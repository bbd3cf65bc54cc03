"""The settings that every agent receives, on any engine: see `bullpen.agent.config`."""

from typing import Any

from bullpen.config import Settings


def told_of_ci(settings: Settings) -> dict[str, Any]:
    """The agent's settings for GitHub's runner, without secrets; empty if the runners execute Bullpen's own jobs."""
    if not settings.on_github:
        return {}
    github = settings.github
    return {
        "ci": "github",
        "runner_directory": "" if github.runner_url else github.runner_directory,
        "runner_url": github.runner_url,
        "runner_sha256": github.runner_sha256 if github.runner_url else "",
    }
