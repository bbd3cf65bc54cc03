"""Versions of the runner in the texts of signals."""

import pytest

from bullpen.model.runner_version import refused_version, runner_version


def test_the_version_of_a_machine_is_not_that_of_a_refusal() -> None:
    assert (runner_version("runner=2.336.0"), refused_version("runner=2.336.0")) == ("2.336.0", None)
    refused = (
        "the agent has stopped: GitHub refuses runner version 2.1.0: use a newer one; refused-runner=2.1.0; its last"
    )
    assert (runner_version(refused), refused_version(refused)) == (None, "2.1.0")


@pytest.mark.parametrize("text", ["", "runner=", "refused-runner=x", "my-refused-runner=2.1.0", "refused-runner=2"])
def test_any_other_text_names_none(text: str) -> None:
    assert (runner_version(text), refused_version(text)) == (None, None)
