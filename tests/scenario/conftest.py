import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bullpen.engines.sqlite.notify import SHORT_ROOT
from scenario.pool import Pool, Starter


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts real processes."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    starter = Starter()
    yield starter
    starter.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, unlike pytest's own, which carries the test's name: the sockets of a home have to fit into it."""
    directory = Path(tempfile.mkdtemp(prefix="pool-", dir=SHORT_ROOT)).resolve()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def pools(folder: Path, starter: Starter) -> Iterator[Callable[[], Pool]]:
    """Makes pools, each on a home of its own. Whatever happens, not one of their processes outlives the test."""
    made: list[Pool] = []

    def make() -> Pool:
        own = folder / str(len(made))
        own.mkdir()
        made.append(Pool(home=own / "home", folder=own, starter=starter))
        return made[-1]

    yield make
    for pool in made:
        pool.end()


@pytest.fixture
def pool(pools: Callable[[], Pool]) -> Pool:
    return pools()
