"""Which pool and which settings: the options that every command takes, before it or after it."""

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError, NotFound
from bullpen.lazy_dataclass import dataclass
from bullpen.schema.remedies import at_a_terminal
from bullpen.settings import Loaded, load
from bullpen.structured_log import Format, Level, set_up

if TYPE_CHECKING:
    from bullpen.cli.backend import Backend
    from bullpen.cli.progress import ProgressDisplay
    from bullpen.cli.session import Work
    from bullpen.cli.target import Target
    from bullpen.model.progress import Tell
    from bullpen.ports import Ports

DEFAULT_HOME = ".bullpen"
NO_POOL = "Set --home or BULLPEN_HOME to the directory of a pool. `bullpen provision` and `bullpen run` create one."
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(slots=True)
class PoolOptions:
    """Filled while the options are parsed; what stands after the command wins over what stands before it."""

    home: str | None = None
    config: str | None = None
    assignments: list[str] = field(default_factory=list)
    server: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    log_level: str | None = None
    log_format: str = "text"
    has_log: bool = False
    as_json: bool = False

    @property
    def directory(self) -> Path:
        if self.home == "":
            remedy = f"Leave it out for {DEFAULT_HOME}."
            raise ConfigError("--home '': must name a directory", remedy=remedy, field="--home")
        return Path(self.home or os.environ.get("BULLPEN_HOME") or DEFAULT_HOME)

    @property
    def chosen_server(self) -> str:
        """The server's URL, if the command works on one. A home on the command line wins over BULLPEN_SERVER."""
        if self.server == "":
            remedy = "Leave it out to work on the pool of this machine."
            raise ConfigError("--server '': must be the URL of a `bullpen serve`", remedy=remedy, field="--server")
        return self.server or ("" if self.home is not None else os.environ.get("BULLPEN_SERVER", ""))

    @property
    def invocation(self) -> str:
        """How the next command reaches the same pool: `bullpen` with the options that this one was given."""
        import shlex

        names = (("--home", self.home), ("--config", self.config), ("--server", self.server))
        given = (*names, ("--token-file", self.token_file), ("--ca-file", self.ca_file))
        return " ".join(["bullpen", *(f"{option} {shlex.quote(value)}" for option, value in given if value)])

    def on_this_pool(self, remedy: str) -> str:
        """A remedy with commands that reach this pool, as the user named it."""
        remedy = at_a_terminal(remedy)  # a server says it for programs
        commands = (
            "(?:provision|release|run|status|why|workers|job|pause|resume|drain|rotate)\\b" if self.server else "[a-z]"
        )
        return re.sub(f"`bullpen (?={commands})", lambda _: f"`{self.invocation} ", remedy)

    def refuse_server(self) -> None:
        """Raise ConfigError in a command that works on the store itself if a server was chosen."""
        if not self.chosen_server:
            for option, value in (("--token-file", self.token_file), ("--ca-file", self.ca_file)):
                if value is not None:
                    raise ConfigError(f"{option}: has no meaning without --server", field=option)
            return
        path = click.get_current_context().command_path
        option = "--server" if self.server else "BULLPEN_SERVER"
        raise ConfigError(
            f"{option}: `{path}` works on a home, not through a server",
            remedy="Run it on the machine of `bullpen serve`, without --server and BULLPEN_SERVER.",
            field="--server",
        )

    def set_up_log(self, default: str = "warning", *, brief: bool = True) -> None:
        set_up(Level(self.log_level or default), Format(self.log_format), brief=brief)
        self.has_log = True

    def load(self) -> Loaded:
        """The settings, or ConfigError before anything else is done; also for a command that works on no server."""
        self.refuse_server()
        if not self.has_log:
            self.set_up_log()
        if self.config == "":
            remedy = "Leave it out for ./bullpen.toml or the defaults."
            raise ConfigError("--config '': must name a file", remedy=remedy, field="--config")
        return load(os.environ, config=self.config or "", assignments=self.assignments)

    def target(self) -> "Target":
        """What the command works on, for those that work on any pool. Raise ConfigError."""
        from bullpen.cli.target import Target

        if self.chosen_server:
            from bullpen.cli.remote_target import remote_target

            if not self.has_log:
                self.set_up_log()
            return remote_target(self)
        settings = self.load().settings
        directory = self.directory

        @asynccontextmanager
        async def opened(tell: "Tell") -> "AsyncIterator[Backend]":
            from bullpen.cli.local_pool import LocalPool
            from bullpen.wiring import opened

            async with opened(directory, settings) as ports:
                yield LocalPool(ports, settings, directory)

        return Target(settings, opened, lambda: self.require_pool(settings), self.as_json, self.on_this_pool)

    def perform(
        self,
        settings: Settings,
        work: "Work[Ports, T]",
        *,
        stops: bool = False,
        display: "ProgressDisplay | None" = None,
    ) -> T:
        """Open the pool's store and run `work` on it, see `session.perform`."""
        from bullpen.cli.session import perform  # `bullpen config` needs no event loop

        try:
            return perform(self.directory, settings, work, stops=stops, as_json=self.as_json, display=display)
        except BullpenError as exc:
            exc.remedy = self.on_this_pool(exc.remedy)
            raise

    def query(self, settings: Settings, work: "Callable[[Ports], Awaitable[T]]") -> T:
        """Run a query, which must not create a pool. Raise NotFound if there is none."""
        self.require_pool(settings)
        return self.perform(settings, lambda ports, stop, tell: work(ports))

    def require_pool(self, settings: Settings) -> None:
        """Raise NotFound if there is no pool in the home. An empty answer would hide a misspelt --home."""
        from bullpen.wiring import is_unused

        if is_unused(self.directory, settings):
            raise NotFound(f"there is no pool in {self.directory.absolute()}", remedy=NO_POOL)


def pool_options(function: F) -> F:
    """Add --home, --server, --config, --set and more; they arrive in the command's `PoolOptions`."""
    shared: dict[str, Any] = {"expose_value": False, "callback": _note}
    for option in (
        click.option(
            "--log-format",
            type=click.Choice([one.value for one in Format]),
            metavar="FORMAT",
            help="Log lines on stderr as text or json [text].",
            **shared,
        ),
        click.option(
            "--log-level",
            type=click.Choice([one.value for one in Level]),
            metavar="LEVEL",
            help="Log from debug, info, warning or error on [warning; serve: info].",
            **shared,
        ),
        click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Override a setting.", **shared),
        click.option("--config", metavar="FILE", help="Settings [BULLPEN_CONFIG; ./bullpen.toml].", **shared),
        click.option("--ca-file", metavar="FILE", help="Authorities that sign the server's certificate.", **shared),
        click.option("--token-file", metavar="FILE", help="Token for the server [BULLPEN_TOKEN].", **shared),
        click.option("--server", metavar="URL", help="A `bullpen serve` to work on [BULLPEN_SERVER].", **shared),
        click.option("--home", metavar="DIR", help="The pool's state [BULLPEN_HOME; .bullpen].", **shared),
    ):
        function = option(function)
    return function


def answering_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add --json and the options of the pool; the command gets them all as its first argument."""
    shown = "Print one JSON object, and nothing else, on stdout."
    option = click.option("--json", "as_json", is_flag=True, expose_value=False, callback=_note, help=shown)
    return option(pool_options(click.pass_obj(function)))


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    given = context.ensure_object(PoolOptions)
    if option.name == "assignments":
        given.assignments += value
    elif value is not None:
        setattr(given, option.name, value)
