"""How tests run. Asynchronous ones: on virtual time, unless marked `real_loop`. Property tests: with the same examples
everywhere, however slow the machine, so that a failure repeats."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from bullpen.sim.loop import virtual_run

pytest_plugins = [
    "fakes.aws_fixtures",
    "fakes.ec2.fixtures",
    "fakes.github.fixtures",
    "fakes.gitea.fixtures",
    "fakes.peer_fixtures",
]

settings.register_profile("bullpen", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("bullpen"), max_examples=20)  # for `make quick`
settings.load_profile("bullpen")

ENGINES = {
    "engines",
    "cloud_process",
    "iam",
    "github",
    "emulator",
    "go_client",
    "act",
    "gitea_program",
    "gitea_runner_program",
    "docs_tools",
    "workflow_linters",
    "console_tools",
    "systemd_analyze",
    "chromium",
}  # the fixtures that start one


COLLECTOR_THRESHOLDS = (20_000, 20, 100)
"""New objects between two searches for garbage: a simulated history makes thousands each second, and few in cycles."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_loop: run this async test on asyncio's own loop, in real time")
    config.addinivalue_line(
        "markers",
        "engines: meets DynamoDB Local, ElasticMQ, our EC2, our GitHub, peers, node, a browser or local machines",
    )
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in a run that a script starts in the background. Every process below would inherit it, and a shell cannot
        # trap a signal that was ignored when it started: the tests that send SIGINT would wait in vain.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # As below `nohup`. This process goes on when its terminal is closed; those that it starts hear of theirs.
        signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected lives as long as the run. Python's collector does not search it for garbage,
    neither now nor during the tests: each search takes a quarter of a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what meets an engine by the fixture that it asks for, so that no test has to say so itself."""
    for item in items:
        if not ENGINES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.engines)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def test_…`; a task that it leaves behind, or a failure that was never awaited, fails it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: value for name, value in pyfuncitem.funcargs.items() if name in wanted})
    if pyfuncitem.get_closest_marker("real_loop"):
        asyncio.run(test)
    else:
        virtual_run(test)
    return True
