"""How often a caller may try to log in. Memory is fixed, whatever callers do.

    wrong token    by the address that it comes from. Once a caller has used up its attempts, a wrong token is answered
                   429 at once; a right one still opens a session: behind a proxy all callers have one address, and
                   none of them may lock the others out
    right token    by the token: each session that is ended early is noted in the store until its time has passed

Nothing rests on the first limit: a token has 256 random bits. It bounds what guesses cost the server, and its log.
"""

import asyncio
import zlib
from ipaddress import IPv6Address, ip_address

from bullpen.server.problems import Problem
from bullpen.structured_log import get_logger

WRONG, WRONG_EVERY = 10, 6.0  # attempts at once, and seconds until there is another one
RIGHT, RIGHT_EVERY = 20, 10.0
SLOTS = 1024  # callers that share one share its attempts
REMEDY = "Try again later. `bullpen token list` shows the tokens that exist."

log = get_logger("bullpen.server")


class LoginLimits:
    """What is left of the attempts."""

    def __init__(self) -> None:
        self._wrong = Attempts(WRONG, WRONG_EVERY)
        self._right = Attempts(RIGHT, RIGHT_EVERY)

    def check_wrong(self, peer: str) -> None:
        """Raise a 429 if too many were wrong before."""
        if self._wrong.left(_network(peer)) < 1:
            raise too_many(self._wrong.every, "too many log-ins with a wrong token")

    def check_right(self, token: str) -> None:
        """Raise a 429 if too many sessions were opened with the token of this id."""
        if not self._right.take(token):
            raise too_many(self._right.every, "too many log-ins with this token")

    def note_wrong(self, peer: str) -> None:
        """Raise a 429 if too many were wrong before."""
        self.check_wrong(peer)
        self._wrong.take(_network(peer))
        if self._wrong.left(_network(peer)) < 1:
            log.warning("too many log-ins with a wrong token", peer=peer)


class Attempts:
    """Buckets that fill again with time."""

    def __init__(self, most: int, every: float) -> None:
        self.every = every
        self._most = most
        self._slots = [(float(most), 0.0)] * SLOTS  # what was left, and when, by the loop's clock

    def left(self, name: str) -> float:
        count, at = self._slots[_slot(name)]
        return min(float(self._most), count + (asyncio.get_running_loop().time() - at) / self.every)

    def take(self, name: str) -> bool:
        """Use one up; False if there is none."""
        left = self.left(name)
        if left < 1:
            return False
        self._slots[_slot(name)] = (left - 1, asyncio.get_running_loop().time())
        return True


def too_many(seconds: float, error: str) -> Problem:
    return Problem(429, error, remedy=REMEDY, headers={"retry-after": f"{seconds:.0f}"})


def _slot(name: str) -> int:
    return zlib.crc32(name.encode(errors="replace")) % SLOTS


def _network(peer: str) -> str:
    """A caller that has one address of IPv6 has all of its /64."""
    try:
        found = ip_address(peer)
    except ValueError:
        return peer
    return str(int(found) >> 64) if isinstance(found, IPv6Address) and found.ipv4_mapped is None else peer
