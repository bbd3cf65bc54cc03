"""Ports for servers that cannot choose their own: a client gets the URL before the server listens."""

import socket
from contextlib import suppress
from random import SystemRandom

RANGE = range(20_000, 32_000)
"""Below those that Linux gives out by itself: what is free now does not become the connection of another process, nor
the port of a server that takes any, before it is used."""


def a_free_port() -> int:
    """Drawn by chance, so that tests that run at the same time do not draw the same."""
    while True:
        port = SystemRandom().choice(RANGE)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
