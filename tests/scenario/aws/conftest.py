import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.ec2.control import Control
from fakes.java_engines import Engines
from scenario.aws.ledger import Ledger
from scenario.aws.pool import CloudPool
from scenario.commands import Starter


@pytest.fixture(scope="session")
def aws_starter(no_account: None) -> Iterator[Starter]:
    starter = Starter("aws")
    yield starter
    starter.close()


@pytest.fixture
def pool(folder: Path, aws_starter: Starter, engines: Engines, cloud: Control) -> Iterator[CloudPool]:
    """In an account with nothing in it. Its commands end with the test, and its machines with the cloud."""
    name = f"test-{secrets.token_hex(6)}"
    ledger = Ledger.of(name, engines)
    made = CloudPool(
        home=folder / "home", folder=folder, starter=aws_starter, name=name, cloud=cloud, engines=engines, ledger=ledger
    )
    yield made
    made.kill_commands()
    cloud.reset()
