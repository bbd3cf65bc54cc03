"""The action in workflows that `nektos/act` executes, with an operator's token and a real `bullpen serve`.

`act_runs` says what act does as GitHub's runner does, and what it does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from action.act_runs import WorkflowRun, run_workflow
from action.operated_server import serving
from action.steps import manifest
from server.served import ServeProcess

pytestmark = pytest.mark.slow

RUN, REFUSED_RUN = "4711", "4712"
UNKNOWN_TOKEN = "bpo_0000000000000000_of_another_server"

PROVISION = """
on: push
jobs:
  provision:
    runs-on: ubuntu-latest
    outputs:
      label: ${{ steps.runners.outputs.label }}
    steps:
      - uses: actions/checkout@v5
      - id: runners
        uses: ./
        with:
          mode: provision
          server: ${{ secrets.SERVER }}
          server-token: ${{ secrets.SERVER_TOKEN }}
          instance-count: 2
      - id: later
        run: echo "$OUTPUTS"
        env:
          OUTPUTS: ${{ toJSON(steps.runners.outputs) }}
  test:
    needs: provision
    runs-on: ${{ needs.provision.outputs.label }}
    steps:
      - id: elsewhere
        run: echo "$LABEL"
        env:
          LABEL: ${{ needs.provision.outputs.label }}
"""

RELEASE = """
on: push
jobs:
  release:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - id: back
        uses: ./
        with:
          mode: release
          server: ${{ secrets.SERVER }}
          server-token: ${{ secrets.SERVER_TOKEN }}
"""

REFUSED = """
on: push
jobs:
  provision:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - id: unknown-token
        continue-on-error: true
        uses: ./
        with:
          mode: provision
          server: ${{ secrets.SERVER }}
          server-token: ${{ secrets.UNKNOWN_TOKEN }}
      - id: bad-count
        continue-on-error: true
        uses: ./
        with:
          mode: provision
          server: ${{ secrets.SERVER }}
          server-token: ${{ secrets.SERVER_TOKEN }}
          instance-count: many
      - id: class-that-is-missing
        uses: ./
        with:
          mode: provision
          server: ${{ secrets.SERVER }}
          server-token: ${{ secrets.SERVER_TOKEN }}
          resource-class: huge
      - id: later
        run: echo "a step after a failure"
"""


@dataclass(frozen=True)
class Story:
    """What act made of a workflow, and the server's instances afterwards."""

    ran: WorkflowRun
    instances: list[dict[str, Any]]


@dataclass(frozen=True)
class Workplace:
    """Executes workflows against one server."""

    act: Path
    folder: Path
    served: ServeProcess
    token: str

    def run(self, workflow: str, run: str) -> Story:
        secrets = {"SERVER": self.served.url, "SERVER_TOKEN": self.token, "UNKNOWN_TOKEN": UNKNOWN_TOKEN}
        place = self.folder / f"act-{len(list(self.folder.glob('act-*')))}"
        ran = run_workflow(self.act, workflow, place, secrets, run)
        _, found = self.served.ask("GET", "/v1/instances", headers={"authorization": f"Bearer {self.token}"})
        return Story(ran, found["instances"])


@pytest.fixture(scope="module")
def workplace(act: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    folder = tmp_path_factory.mktemp("act")
    with serving(folder / "home", "--set", "local.capacity=2") as (served, where):
        yield Workplace(act, folder, served, where["server-token"])


@pytest.fixture(scope="module")
def provisioned(workplace: Workplace) -> Story:
    return workplace.run(PROVISION, RUN)


@pytest.fixture(scope="module")
def released(workplace: Workplace, provisioned: Story) -> Story:
    return workplace.run(RELEASE, RUN)


@pytest.fixture(scope="module")
def refused(workplace: Workplace) -> Story:
    return workplace.run(REFUSED, REFUSED_RUN)


def test_every_output_of_the_action_arrives_in_a_later_step(provisioned: Story) -> None:
    step = provisioned.ran.step("runners")
    assert step.result == "success", provisioned.ran.printed
    assert step.outputs.keys() == manifest()["outputs"].keys()
    assert (step.outputs["label"], step.outputs["created"], step.outputs["selected"]) == (RUN, "2", "0")
    assert json.loads("".join(provisioned.ran.step("later").lines)) == step.outputs


def test_a_job_can_run_on_the_label_that_another_job_provisioned(provisioned: Story) -> None:
    assert provisioned.ran.code == 0, provisioned.ran.printed
    assert provisioned.ran.step("elsewhere").lines == [RUN]


def test_the_server_holds_the_runners_of_the_outputs_for_the_repository(provisioned: Story) -> None:
    listed = json.loads(provisioned.ran.step("runners").outputs["instance-ids"])
    held = {
        one["id"]: (one["state"], one["runId"], one["repository"], one["trustDomain"]) for one in provisioned.instances
    }
    assert held == dict.fromkeys(listed, ("running", RUN, "acme/widgets", "acme/widgets"))


def test_the_summary_has_a_table_of_the_runners(provisioned: Story) -> None:
    step = provisioned.ran.step("runners")
    assert "2 runners ready" in step.summary.splitlines()[0]
    for id in json.loads(step.outputs["instance-ids"]):
        assert f"| `{id}` | small | local.small | on-demand | created |" in step.summary.splitlines()


def test_a_release_step_gives_the_runners_back_to_the_pool(provisioned: Story, released: Story) -> None:
    step = released.ran.step("back")
    assert step.result == "success", released.ran.printed
    listed = json.loads(provisioned.ran.step("runners").outputs["instance-ids"])
    for id in listed:
        assert f"| `{id}` | back in the pool |" in step.summary.splitlines()
    offered = {one["id"]: (one["state"], one["runId"], one["attested"]) for one in released.instances}
    assert offered == dict.fromkeys(listed, ("idle", "", True))


def test_a_token_that_the_server_does_not_know_fails_the_step_with_what_to_do(refused: Story) -> None:
    step = refused.ran.step("unknown-token")
    assert (step.result, step.exit_code) == ("failure", 1)
    assert "refused the token" in step.summary
    assert "**What to do:** Check that server-token is right" in step.summary


def test_an_input_that_is_not_valid_fails_the_step_and_is_named(refused: Story) -> None:
    step = refused.ran.step("bad-count")
    assert (step.result, step.exit_code) == ("failure", 2)
    assert "provision did not begin, and nothing was done" in step.summary
    assert "**Cause:** instance-count 'many': must be a whole number from 1 to 1000" in step.summary


def test_an_input_that_the_server_refuses_fails_the_job_and_is_named(refused: Story) -> None:
    step = refused.ran.step("class-that-is-missing")
    assert (step.result, step.exit_code) == ("failure", 2)
    assert "resource-class 'huge': not configured; known are large, medium, small" in step.summary
    assert refused.ran.code == 1
    assert "a step after a failure" not in refused.ran.printed


def test_no_step_prints_a_token_and_each_asks_to_mask_its_own(
    workplace: Workplace, provisioned: Story, released: Story, refused: Story
) -> None:
    assert provisioned.ran.masked == released.ran.masked == {workplace.token}
    assert refused.ran.masked == {workplace.token, UNKNOWN_TOKEN}
    for story in (provisioned, released, refused):
        shown = story.ran.printed + json.dumps([one.get("content") for one in story.ran.entries])
        assert workplace.token not in shown
        assert UNKNOWN_TOKEN not in shown
