"""What virtual time does not have: I/O, threads, subprocesses, signals. Asking for it is an error, at once."""

import asyncio
from collections.abc import Callable
from typing import NoReturn, TypeVar

_Class = TypeVar("_Class", bound=type)

_LIFE = ("run_forever", "run_until_complete", "stop", "is_running", "close", "is_closed", "shutdown_asyncgens")
_WORK = ("time", "call_soon", "call_at", "call_later", "create_future", "create_task", "shutdown_default_executor")
_ERRORS = ("call_exception_handler", "default_exception_handler", "get_exception_handler", "set_exception_handler")
# No `set_task_factory`: one may start tasks eagerly, which is inside a callback, where no process can be killed.
_SIMULATED = frozenset([*_LIFE, *_WORK, *_ERRORS, "get_debug", "set_debug", "get_task_factory"])


class NotSimulated(RuntimeError):
    """Asked the virtual loop for something that only a real one has."""


def without_the_outside(loop_class: _Class) -> _Class:
    """Make a loop class refuse every method that leads out of the simulation."""
    for name in vars(asyncio.AbstractEventLoop):
        if not name.startswith("_") and name not in _SIMULATED:
            setattr(loop_class, name, _refusal(name))
    return loop_class


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(_loop: object, *_args: object, **_kwargs: object) -> NoReturn:
        raise NotSimulated(f"loop.{name}() does not exist on virtual time; use a simulated engine, or a real loop")

    return refuse
