import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.engines.sqlite.notify import SHORT_ROOT


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Short, unlike pytest's own, which carries the test's name: the sockets of a home have to fit into it."""
    with tempfile.TemporaryDirectory(dir=SHORT_ROOT) as directory:
        yield Path(directory).resolve()
