"""An agent runs on, through jobs and cleanings, when the tree that it was started from is replaced or removed."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from free_ports import a_free_port
from scenario.pool import Pool
from scenario.test_everyday import ids
from scenario.upgrade.installed import Installed

# In front of the agent's program: its log names every module that it loads, those of Python included.
NAMING = """import os, sys
sys.addaudithook(lambda event, told: event == "import" and os.write(2, f"loads {told[0]}\\n".encode()))
"""


def replace(tree: Path) -> None:
    for file in tree.rglob("*.py"):
        file.write_text("another version, which this agent cannot load\n")


def remove(tree: Path) -> None:
    shutil.rmtree(tree)


def serve(pool: Pool) -> None:
    """Agents that are launched from now on use `bullpen serve`."""
    port = a_free_port()
    pool.settings["agent.serve-url"] = f"http://127.0.0.1:{port}"
    serving = pool.start("serve", "--port", str(port))
    pool.until(lambda: "listening" in serving.said() or serving.has_ended(), "it listens")


@pytest.mark.parametrize(("is_served", "upgrade"), [(False, remove), (True, replace)], ids=["embedded", "served"])
def test_an_agent_whose_tree_is_replaced_runs_a_job_is_cleaned_and_runs_the_next(
    pool: Pool, is_served: bool, upgrade: Callable[[Path], None]
) -> None:
    installed = Installed.now(pool.folder / "tree")
    program = installed.folder / "bullpen/agent/__main__.py"
    program.write_text(NAMING + program.read_text())
    launching = Pool(home=pool.home, folder=pool.folder / "launching", starter=installed, settings=pool.settings)
    launching.folder.mkdir()
    if is_served:
        serve(pool)
    (id,) = ids(launching.provision("run-1", 1))
    pool.until(lambda: bool(pool.rows("SELECT 1 FROM workers")), "its first heartbeat has arrived")

    with open(pool.home / "instances" / id / "agent.log") as log:
        assert "loads bullpen." in log.read()
        upgrade(installed.folder)
        assert pool.run_job("run-1", "echo one > left; setsid sleep 600 &") == id
        assert pool.release("run-1")["offered"] == [id]
        assert ids(pool.provision("run-2", 1)) == [id]
        assert pool.run_job("run-2", "test ! -e left") == id
        pool.signal(id, signal.SIGTERM)
        pool.until(
            lambda: pool.rows("SELECT 1 FROM signals WHERE kind = 'UD_REG_FAILED'") != [], "it says that it stops"
        )
        pool.run("down", "--yes")  # also beside a running serve
        said = log.read()  # by the open file: with the machine its directory has gone
    assert "stops: it was asked to stop" in said
    assert [line for line in said.splitlines() if line.startswith("loads ")] == []
    assert pool.audit() == []
