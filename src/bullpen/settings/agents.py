"""What agents are told of the settings, wherever they run: see `bullpen.agent.config`."""

from typing import Any

from bullpen.config import Settings


def told_of_ci(settings: Settings) -> dict[str, Any]:
    """Whose jobs to run, and with what. Nothing, where they are our own; and nothing of it is secret."""
    if not settings.on_github:
        return {}
    github = settings.github
    return {
        "ci": "github",
        "runner_directory": "" if github.runner_url else github.runner_directory,
        "runner_url": github.runner_url,
        "runner_sha256": github.runner_sha256 if github.runner_url else "",
    }
