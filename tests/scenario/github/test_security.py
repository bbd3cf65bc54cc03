"""What docs/security.md says that a job cannot do, tried by a job. Each number there is a test here, and no other.

The jobs run as another user, so only root can try. Where we are not root this is skipped, and said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from github.stage import SKIPPED, serving
from scenario.github.break_in import Evidence, break_in, spy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(github_described: None, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    with serving() as hub:
        return break_in(hub, tmp_path_factory.mktemp("loot"))


def test_c1(found: Evidence) -> None:
    print(found)
    print(found.report("opened"))
    print(found.report("changed"))
    print(found.report("overpowered"))
    for line in found.report("spoken"): print(line)
    print(found.report("own"))
    print(found.report("seen"))
    print(found.report("hook"))
    bag = (found.loot/"harvest").read_bytes()
    print(len(bag), [n for n,v in found.secrets.items() if v in bag])
    print([(k, r.job("build").conclusion, r.job("build").log) for k, r in found.strangers.items()])
    assert 0

def test_c2(github_described: None, tmp_path) -> None:
    with serving() as hub:
        f = spy(hub, tmp_path)
    print(f)
    bag = (f.loot/"lurked").read_bytes()
    print(len(bag), [n for n,v in f.secrets.items() if v in bag])
    print(f.logs)
    assert 0
