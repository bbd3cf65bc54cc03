"""The distribution, and what its extras add."""

import shlex
import sys
from importlib.util import find_spec

from bullpen.errors import ConfigError

DISTRIBUTION = "bullpen-ci"
"""What pip installs. Package and command are named `bullpen`, which on PyPI is the name of another project."""


def missing_extra(subject: str, missing: ImportError, extra: str) -> ConfigError:
    """A package of an extra is not installed. The command adds it to this environment, whatever Bullpen came from."""
    installer = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # uv makes environments without it, and installs into them from outside
        installer = ["uv", "pip", "install", "--python", sys.executable]
    command = shlex.join([*installer, f"{DISTRIBUTION}[{extra}]"])
    return ConfigError(f"{subject}: {missing.name} is not installed", remedy=f"Install its extra: `{command}`.")
