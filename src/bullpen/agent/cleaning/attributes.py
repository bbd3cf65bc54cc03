"""Extended attributes of a directory, its access lists among them: what a job can leave on one that outlives it.

A default access list would even decide which users may read what the next run creates there. Files need no such check:
changing an attribute of a file changes its change time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from types import MappingProxyType

LABELS = frozenset({"security.selinux", "security.SMACK64", "security.ima", "security.evm"})
"""The kernel itself gives these to every new directory, where it has such a module."""

Attributes = Mapping[str, bytes]
NONE: Attributes = MappingProxyType({})


def read(fd: int) -> Attributes:
    """Those that the agent may see. Raise OSError."""
    try:
        names = os.listxattr(fd)
    except OSError as failure:
        if failure.errno == errno.ENOTSUP:
            return {}
        raise
    found: dict[str, bytes] = {}
    for name in names:
        try:
            found[name] = os.getxattr(fd, name)
        except OSError as failure:
            if failure.errno != errno.ENODATA:  # else it is gone since
                raise
    return found


def changes(was: Attributes, now: Attributes) -> list[str]:
    """The names of those that differ. Labels are compared only where the earlier ones are known."""
    names = (was.keys() | now.keys()) - (LABELS - was.keys())
    return sorted(name for name in names if was.get(name) != now.get(name))


def bring_back(fd: int, wanted: Attributes) -> None:
    """Make a directory's attributes these. Raise OSError."""
    for name in changes(wanted, read(fd)):
        if name in wanted:
            os.setxattr(fd, name, wanted[name])
        else:
            os.removexattr(fd, name)
