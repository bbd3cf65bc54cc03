"""Settings of a running process: read again when their file changes or upon request, taken over where that is safe.

    file changed, and stood still for one look ─┐
    SIGHUP ─────────────────────────────────────┴─▶ load as at the start ─┬─▶ liveness.*   in force from now on
                                                                          ├─▶ all others   named once: restart needed
                                                                          └─▶ a mistake    named; the old values stay

Variables and options keep their precedence over the file. What is taken over is checked together with what is not: the
new `liveness.*` must go with the old `timings.*` until the restart.
"""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from bullpen.config import Liveness, Settings
from bullpen.errors import ConfigError
from bullpen.settings import FILE, Loaded
from bullpen.settings.validation import contradictions
from bullpen.structured_log import get_logger

LIVE = "liveness."  # how the names begin of the settings that a running process takes over
RESTART = "Restart `serve` to change them."

Signature = tuple[int, ...] | None  # None: there is no file

log = get_logger("bullpen.settings")


class Reloader:
    """The settings in force. `adopt` is told of new ones; `restart_needed` names those that differ from the file and
    stay as they were, `refused` is why the file as it stands now was not taken over at all."""

    def __init__(self, loaded: Loaded, load: Callable[[], Loaded]) -> None:
        self.settings = loaded.settings
        self.restart_needed: tuple[str, ...] = ()
        self.refused = ""
        self.adopt: Callable[[Settings], None] = lambda settings: None
        self._first = loaded
        self._load = load
        self._path = (loaded.file or Path(FILE)).absolute()
        self._read = self._seen = _signature(self._path)

    @property
    def file(self) -> str:
        return str(self._first.file or "")

    def look(self) -> None:
        """Read the file if it has changed. Not while it changes: an editor may have written half of it."""
        now = _signature(self._path)
        is_still, self._seen = now == self._seen, now
        if now != self._read and is_still:
            self.reread()

    def reread(self) -> None:
        """Read everything now. Nothing is taken over of what holds a mistake."""
        self._read = self._seen = _signature(self._path)
        try:
            found = self._found()
            self._take_over(found.settings.liveness)
        except (ConfigError, OSError) as exc:
            self.refused = str(exc)
            log.error("settings refused; the old values stay in force", error=exc)
            return
        self.refused = ""
        self._note_restart(found)

    def _found(self) -> Loaded:
        if self._read is None and self._first.file is not None:
            raise ConfigError(f"{self._first.file}: is gone")
        if self._read is not None and not self._path.is_file():
            raise ConfigError(f"{self._first.file or self._path}: not a regular file: it cannot be read again")
        return self._load()

    def _take_over(self, rules: Liveness) -> None:
        old = self.settings.liveness
        new = structs.replace(self.settings, liveness=rules)
        if wrong := list(contradictions(new)):
            raise ConfigError(f"{self._path}: {'; '.join(wrong)}, as long as the settings that need a restart are kept")
        changed = [key for key in structs.fields(Liveness) if getattr(old, key.name) != getattr(rules, key.name)]
        if not changed:
            log.info("settings read again; liveness.* is unchanged")
            return
        self.settings = new
        self.adopt(new)
        for key in changed:
            before, after = getattr(old, key.name), getattr(rules, key.name)
            log.info("setting changed", name=f"{LIVE}{key.encode_name}", before=before, now=after)

    def _note_restart(self, found: Loaded) -> None:
        first, now = self._first.values, found.values
        names = dict.fromkeys([*first, *now])
        differ = [name for name in names if name not in first or name not in now or first[name][0] != now[name][0]]
        needed = tuple(name for name in differ if not name.startswith(LIVE))
        if needed and needed != self.restart_needed:
            log.warning("settings changed that need a restart", names=needed, remedy=RESTART)
        elif self.restart_needed and not needed:
            log.info("settings are again those of the start; no restart is needed")
        self.restart_needed = needed


def _signature(path: Path) -> Signature:
    """Changes with the content: also where a file is replaced, or a link comes to point elsewhere."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
