"""Reloading the settings of a running process when the file changes or on SIGHUP.

    file changed, then unchanged for one check ─┐
    SIGHUP ─────────────────────────────────────┴─▶ load as at the start ─┬─▶ liveness.*   applied at once
                                                                          ├─▶ all others   logged once: restart needed
                                                                          └─▶ an error     logged; old values stay

Variables and options keep their precedence over the file. The new `liveness.*` are validated together with the old
values of all other settings, which stay in force until the restart.
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

LIVE = "liveness."  # prefix of the settings that a running process applies
RESTART = "Restart `serve` to change them."

Signature = tuple[int, ...] | None  # None: there is no file

log = get_logger("bullpen.settings")


class Reloader:
    """The settings in force. `adopt` is called with new ones. `restart_needed` names settings that changed in the file
    and need a restart; `refused` is the reason why the current file was not applied at all."""

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

    def reload_if_changed(self) -> None:
        """Read the file if it has changed, but not while it is changing: an editor may have written half of it."""
        now = _signature(self._path)
        is_still, self._seen = now == self._seen, now
        if now != self._read and is_still:
            self.reread()

    def reread(self) -> None:
        """Read everything now. If there is an error, nothing is applied."""
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
            raise ConfigError(f"{self._first.file}: does not exist any more")
        if self._read is not None and not self._path.is_file():
            raise ConfigError(f"{self._first.file or self._path}: is not a regular file, and cannot be read again")
        return self._load()

    def _take_over(self, rules: Liveness) -> None:
        old = self.settings.liveness
        new = structs.replace(self.settings, liveness=rules)
        if wrong := list(contradictions(new)):
            raise ConfigError(f"{self._path}: {'; '.join(wrong)}, until a restart applies the other settings")
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
    """Differs after a change of the content, also if the file is replaced or a link points to another file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
