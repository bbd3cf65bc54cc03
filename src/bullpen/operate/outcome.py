"""What an operator's order did, or would do."""

from collections.abc import Iterable

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.instance import Instance
from bullpen.model.pause import Pause

TRIES = 10
"""How often a record is read again that another operator or process changed at the same moment."""
SHOWN = 60  # characters of a note that is refused


@dataclass(frozen=True, slots=True)
class OperatorDeed:
    """One thing that was done to a subject, or would be, and why or what follows."""

    what: str
    subject: str
    reason: str

    @property
    def is_done(self) -> bool:
        """For the activity: an order that cannot be carried out is an error."""
        return True


@dataclass(frozen=True, slots=True)
class OperateOutcome:
    """`pause` is the one that is in force afterwards, if one is. `note` is what the operator gave as reason."""

    dry_run: bool
    actions: tuple[OperatorDeed, ...] = ()
    pause: Pause | None = None
    note: str = ""


def checked_note(note: str, *, is_needed: bool = False) -> str:
    """Raise ConfigError for a note that could not be shown as it is, or that is missing."""
    if not limits.is_note(note) or (is_needed and not note.strip()):
        allowed = limits.NOTE_ALLOWED + (", and must be given" if is_needed else "")
        shown = note if len(note) <= SHOWN else note[:SHOWN] + "..."
        raise ConfigError(f"note {shown!r}: must be {allowed}", field="note", value=note, allowed=allowed)
    return note.strip()


def check_class(settings: Settings, resource_class: str, others: Iterable[str] = ()) -> None:
    """Raise ConfigError for a class that is neither configured nor one of `others`. Empty is the whole pool."""
    if resource_class and resource_class not in others:
        settings.resource_class(resource_class)


def classes_of(live: Iterable[Instance]) -> list[str]:
    return sorted({one.resource_class for one in live})
