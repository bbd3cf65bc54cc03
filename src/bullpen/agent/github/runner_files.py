"""What config.sh writes down of a registration, kept where no job can change it.

The files lie beside GitHub's runner and belong to the user of the jobs. A job may change them: to have another runner
removed instead of this one, or to have our token sent elsewhere. So what removes a registration finds the directory as
it was when that was made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.github.install import strip

if TYPE_CHECKING:
    from bullpen.agent.account import Account

FILES = re.compile(r"\.runner.*|\.credentials.*")


class RegistrationFiles:
    """The files as they are when this is made: before the first job."""

    def __init__(self, directory: Path) -> None:
        """Raise OSError."""
        self._files = {path.name: path.read_bytes() for path in directory.iterdir() if FILES.fullmatch(path.name)}

    def bring_back(self, directory: Path, programs: Collection[str], account: Account | None) -> None:
        """Leave nothing there but the programs and these files. Nothing of a job may run any more. Raise OSError."""
        strip(directory, programs)
        for name, content in self._files.items():
            # Never through a link or file that a job may have put there.
            with os.fdopen(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                if account is not None:
                    os.fchown(file.fileno(), account.user, account.group)
