"""Whether a host is this machine: there a server may do without tokens, and a client without encryption."""

from functools import lru_cache
from ipaddress import ip_address


@lru_cache(maxsize=1024)  # every request without tokens asks it of its peer
def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # a name may lead anywhere
