"""Every error that Bullpen raises on purpose.

    BullpenError
    ├── ConfigError              settings or arguments are wrong; before any work     exit 2
    │   └── Outdated             the store was made by a newer Bullpen
    ├── NotFound                 no such record
    │   └── SessionGone          the message session has ended: open another
    ├── InvalidTransition        the subject is not in a source state of the step
    ├── Conflict                 another process moved it first: draw again or reread
    ├── Unavailable              could not answer; a retry may help                   exit 75
    │   ├── Throttled            … after `retry_after` seconds
    │   └── UnreadableMessage    it would come again: skip it if that does not help
    ├── Refused                  answered no; the same again will not help
    │   ├── InsufficientCapacity the engine cannot launch enough machines of this kind now
    │   ├── LimitReached         a cap of the settings
    │   │   └── OnHold           an operator has paused the class, or the pool
    │   ├── StoreFull            the files of projects and jobs take all the room that they may
    │   ├── PermissionDenied     the credentials do not allow the call
    │   └── WrongClock           this machine's clock is off: nothing may be judged late by it
    └── ProvisionFailed          not met; everything acquired was given back          exit 1
        └── Interrupted          … because a stop was requested before the commit     exit 130

One class per reaction, not per cause. A message names its subject first; `remedy` says what to do next.
"""

from enum import StrEnum
from typing import Any


class FailureCause(StrEnum):
    """Why something failed, for programs: one for each reaction, as the classes below."""

    NONE = ""  # it did not
    CONFIGURATION = "configuration"
    NOT_FOUND = "not-found"
    CONFLICT = "conflict"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    CAPACITY = "capacity"
    LIMIT = "limit"
    PAUSED = "paused"
    PERMISSION = "permission"
    NOT_MET = "not-met"
    INTERRUPTED = "interrupted"
    FAULT = "fault"  # an error that Bullpen did not raise on purpose


class BullpenError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1
    cause = FailureCause.REFUSED
    field = ""  # what is wrong: an option, or a field of a request
    code = ""  # of a server's answer: the kind of its error

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class ConfigError(BullpenError):
    """Settings or arguments are wrong; raised before any work, and nothing has changed.

    `field` is what is wrong, as the message calls it at its beginning: an option, or a field of a request; empty where
    it is no single one. `value` is what it was, and `allowed` what it may be, for programs.
    """

    exit_code = 2
    cause = FailureCause.CONFIGURATION

    def __init__(
        self, message: str, *, remedy: str = "", field: str = "", value: object = None, allowed: str = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.field, self.value, self.allowed = field, value, allowed


class Outdated(ConfigError):
    """The store was made by a newer Bullpen: this program must not change it, and a service must stop."""


class NotFound(BullpenError):
    cause = FailureCause.NOT_FOUND


class SessionGone(NotFound):
    """The message session of a scale set has ended, and only a new one helps."""


class InvalidTransition(BullpenError):
    cause = FailureCause.CONFLICT

    def __init__(self, subject: str, step: str, state: str) -> None:
        super().__init__(f"{subject} is {state}: it cannot {step}")


class Conflict(BullpenError):
    """Another process moved the record first. `found` is the record as stored now, if the store knows it (None:
    absent)."""

    cause = FailureCause.CONFLICT

    def __init__(self, message: str, *, found: Any = None) -> None:
        super().__init__(message)
        self.found = found


class Unavailable(BullpenError):
    exit_code = 75
    cause = FailureCause.UNAVAILABLE


class Throttled(Unavailable):
    """An engine asks to be called less often."""

    def __init__(self, message: str, *, retry_after: float, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after = retry_after


class UnreadableMessage(Unavailable):
    """A message of a scale set cannot be read, not even its id. It comes again until it is acknowledged, so its reader
    must skip it if it stays unreadable."""


class Refused(BullpenError):
    """An engine answered no; the same request again will not help."""


class InsufficientCapacity(Refused):
    cause = FailureCause.CAPACITY


class LimitReached(Refused):
    """`setting` is the cap that is reached, and `limit` its value."""

    cause = FailureCause.LIMIT

    def __init__(self, message: str, *, remedy: str = "", setting: str = "", limit: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.setting, self.limit = setting, limit


class OnHold(LimitReached):
    """An operator has paused what was asked for. Waiting for a resume is like waiting for room."""

    cause = FailureCause.PAUSED


class StoreFull(Refused):
    """`needed` bytes do not fit. What no job needs may be removed, and then the same be asked again."""

    cause = FailureCause.LIMIT

    def __init__(self, message: str, *, remedy: str = "", needed: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.needed = needed


class PermissionDenied(Refused):
    cause = FailureCause.PERMISSION


class WrongClock(Refused):
    """The clock of this machine is so far off that nothing may be judged late by it."""


class ProvisionFailed(BullpenError):
    cause = FailureCause.NOT_MET


class Interrupted(ProvisionFailed):
    exit_code = 130
    cause = FailureCause.INTERRUPTED
