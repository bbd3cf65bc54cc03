"""The distribution, and what its extras add."""

import shlex
import sys

from bullpen.errors import ConfigError

DISTRIBUTION = "bullpen-ci"
"""What pip installs. Package and command are named `bullpen`, which on PyPI is the name of another project."""


def missing_extra(subject: str, missing: ImportError, extra: str) -> ConfigError:
    """A package of an extra is not installed. The command adds it to this environment, whatever Bullpen came from."""
    command = shlex.join([sys.executable, "-m", "pip", "install", f"{DISTRIBUTION}[{extra}]"])
    return ConfigError(f"{subject}: {missing.name} is not installed", remedy=f"Install its extra: {command}")
