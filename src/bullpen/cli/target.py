"""What a command works on: the pool of a home, or a server."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bullpen.cli.backend import Backend
from bullpen.cli.progress import ProgressDisplay
from bullpen.cli.session import Opened, Work, perform_on
from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """`settings` are None for a server, which goes by its own. `require` raises NotFound if there is no pool."""

    settings: Settings | None
    opened: Opened[Backend]
    require: Callable[[], None]
    as_json: bool = False
    on_this_pool: Callable[[str], str] = str
    """A remedy with commands that reach this pool, as the user named it."""

    def perform(self, work: Work[Backend, T], *, stops: bool = False, display: ProgressDisplay | None = None) -> T:
        """Open the pool and run `work` on it, see `session.perform_on`. A home without a pool gets one."""
        try:
            return perform_on(self.opened, work, stops=stops, as_json=self.as_json, display=display)
        except BullpenError as exc:
            exc.remedy = self.on_this_pool(exc.remedy)
            raise

    def query(self, work: Callable[[Backend], Awaitable[T]], *, prints: bool = False) -> T:
        """Run a query, which must not create a pool. Raise NotFound if there is none. One that `prints` its answer
        itself has no progress line beside it."""
        self.require()
        display = ProgressDisplay(text="") if prints else None
        return self.perform(lambda pool, stop, tell: work(pool), display=display)

    def check_served(self) -> None:
        """Raise ConfigError where no runner would ever execute a job. A server says so itself."""
        if self.settings is not None:
            from bullpen.jobs import check_served

            check_served(self.settings)
