"""What virtual time does not have: I/O, threads, subprocesses, signals. Asking for it is an error, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

_Class = TypeVar("_Class", bound=type)

_FILES = ["add_reader", "remove_reader", "add_writer", "remove_writer", "connect_read_pipe", "connect_write_pipe"]
_SOCKETS = [
    *(
        "sock_recv",
        "sock_recv_into",
        "sock_recvfrom",
        "sock_recvfrom_into",
        "sock_sendall",
        "sock_sendto",
        "sock_connect",
    ),
    *("sock_accept", "sock_sendfile", "sendfile", "start_tls", "connect_accepted_socket", "getaddrinfo", "getnameinfo"),
    *("create_connection", "create_server", "create_datagram_endpoint", "create_unix_connection", "create_unix_server"),
]
_PROCESSES = ["subprocess_exec", "subprocess_shell", "add_signal_handler", "remove_signal_handler"]
_THREADS = ["run_in_executor", "set_default_executor", "call_soon_threadsafe"]
# Not of the outside, but a factory may start tasks eagerly: inside a callback, where no process can be killed.
_FACTORIES = ["set_task_factory"]


class NotSimulated(RuntimeError):
    """Asked the virtual loop for something that only a real one has."""


def without_the_outside(loop_class: _Class) -> _Class:
    """Make a loop class refuse every method that leads out of the simulation."""
    for name in (*_FILES, *_SOCKETS, *_PROCESSES, *_THREADS, *_FACTORIES):
        setattr(loop_class, name, _refusal(name))
    return loop_class


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(_loop: object, *_args: object, **_kwargs: object) -> NoReturn:
        raise NotSimulated(f"loop.{name}() does not exist on virtual time; use a simulated engine, or a real loop")

    return refuse
