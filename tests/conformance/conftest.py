"""Each test of this folder runs on every engine that keeps the ports it asks for, on the loop of that engine."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import cast

import pytest

from bullpen.ports import (
    CI,
    Artifacts,
    Compute,
    History,
    Jobs,
    Logs,
    Observations,
    PoolQueue,
    Ports,
    Records,
    ScaleSets,
    Signals,
    Sources,
    StoreHealth,
    Tokens,
    Vault,
    Workers,
)
from conformance.engines import ENGINES, Engine, Opened
from conformance.set_services import AdmittingWorld, SetWorld

PORTS = {
    *("records", "signals", "queue", "compute", "ci", "observations", "workers", "jobs", "logs", "vault"),
    *("health", "tokens", "history", "sources", "artifacts", "scale_sets", "set_world", "github_sets"),
}
IN_PROCESS = ("memory", "memory-github", "sqlite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "purging: only for engines that remove old records when asked to")
    config.addinivalue_line("markers", "waking: only for engines on which a change ends a wait")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        asked = PORTS.intersection(metafunc.fixturenames)
        able = {name: engine for name, engine in ENGINES.items() if asked <= set(engine.keeps)}
        if metafunc.definition.get_closest_marker("purging"):
            able = {name: engine for name, engine in able.items() if engine.purges}
        if metafunc.definition.get_closest_marker("waking"):
            able = {name: engine for name, engine in able.items() if engine.wakes}
        away = [() if name in IN_PROCESS else pytest.mark.engines for name in able]
        given = [pytest.param(engine, marks=marks) for engine, marks in zip(able.values(), away, strict=True)]
        metafunc.parametrize("engine", given, ids=able.keys())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test on the loop on which its engine was opened."""
    runner = pyfuncitem.funcargs.get("runner")
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or not isinstance(runner, asyncio.Runner):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    runner.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def runner(engine: Engine) -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=engine.loop) as runner:
        yield runner


@pytest.fixture
def opened(engine: Engine, runner: asyncio.Runner, request: pytest.FixtureRequest) -> Iterator[Opened]:
    manager = engine.open(request.getfixturevalue(engine.given))
    yield runner.run(manager.__aenter__())
    runner.run(manager.__aexit__(None, None, None))


@pytest.fixture
def crowd(engine: Engine) -> int:
    """How many records are many."""
    return engine.crowd


@pytest.fixture
def ports(opened: Opened) -> Ports:
    return opened.ports


@pytest.fixture
def records(ports: Ports) -> Records:
    return ports.records


@pytest.fixture
def signals(ports: Ports) -> Signals:
    return ports.signals


@pytest.fixture
def queue(ports: Ports) -> PoolQueue:
    return ports.queue


@pytest.fixture
def compute(ports: Ports) -> Compute:
    return ports.compute


@pytest.fixture
def ci(ports: Ports) -> CI:
    return ports.ci


@pytest.fixture
def observations(ports: Ports) -> Observations:
    return ports.observations


@pytest.fixture
def workers(ports: Ports) -> Workers:
    return ports.workers


@pytest.fixture
def jobs(ports: Ports) -> Jobs:
    return ports.jobs


@pytest.fixture
def logs(ports: Ports) -> Logs:
    return ports.logs


@pytest.fixture
def health(ports: Ports) -> StoreHealth:
    return ports.health


@pytest.fixture
def tokens(ports: Ports) -> Tokens:
    return ports.tokens


@pytest.fixture
def history(ports: Ports) -> History:
    return ports.history


@pytest.fixture
def vault(ports: Ports) -> Vault:
    return ports.vault


@pytest.fixture
def sources(ports: Ports) -> Sources:
    return ports.sources


@pytest.fixture
def artifacts(ports: Ports) -> Artifacts:
    return ports.artifacts


@pytest.fixture
def scale_sets(set_world: SetWorld) -> ScaleSets:
    return set_world.sets


@pytest.fixture
def set_world(opened: Opened) -> SetWorld:
    """The service behind the port of scale sets."""
    assert opened.set_world is not None
    return opened.set_world


@pytest.fixture
def github_sets(opened: Opened) -> AdmittingWorld:
    """The same, of a service that also does what is known of github.com."""
    return cast(AdmittingWorld, opened.set_world)
