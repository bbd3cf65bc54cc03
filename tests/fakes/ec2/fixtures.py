"""Fixtures for tests that meet EC2: one cloud for all of a run, empty again for each test."""

from collections.abc import Iterator

import pytest

from fakes.ec2.control import Control
from fakes.ec2.running import running


@pytest.fixture(scope="session")
def cloud_process(models_read_once: None) -> Iterator[Control]:
    with running() as control:
        yield control


@pytest.fixture
def cloud(cloud_process: Control, patient_clients: None) -> Iterator[Control]:
    """EC2, STS, IAM, Service Quotas and metadata at `cloud.url`; its faults are set through it."""
    cloud_process.reset()
    yield cloud_process
    cloud_process.reset()
