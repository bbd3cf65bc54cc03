"""Secrets of the `[github]` table: in the settings themselves, or in a file that they name."""

from pathlib import Path

from bullpen.errors import ConfigError

FROM_FILE = "file:"


def read_secret(setting: str, value: str) -> str:
    """What a setting keeps secret, without the line break at a file's end; empty if nothing is set.

    Raise ConfigError, which names the setting and never what it holds, if its file cannot be read or is empty.
    """
    if not value.startswith(FROM_FILE):
        return value
    path = Path(value.removeprefix(FROM_FILE)).expanduser()
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise ConfigError(f"github.{setting}: {path} cannot be read ({why})") from exc
    if not found:
        raise ConfigError(f"github.{setting}: {path} is empty")
    return found
