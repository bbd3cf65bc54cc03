"""action.yml and the migration page say what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from action.steps import ROOT, manifest
from action_tables import PAGE, drawn, published
from bullpen.action.aliases import ALIASES
from bullpen.action.input_specs import INPUTS, OUTPUTS
from bullpen.action.inputs import read
from bullpen.schema.requests import ProvisionRun


@pytest.mark.parametrize("part", list(drawn()), ids=lambda part: part[1].strip())
def test_action_yml_and_the_migration_page_match_the_inputs_of_the_program(part: tuple[Path, str, str, str]) -> None:
    file, begin, end, text = part
    assert published(file, begin, end) == text, "stale: run `python tools/action_tables.py`"


def test_every_input_is_declared_and_none_has_a_default_that_the_program_does_not_know_of() -> None:
    declared = manifest()["inputs"]
    assert list(declared) == [*INPUTS, *ALIASES]
    assert {one["default"] for one in declared.values()} == {""}
    assert [name for name, one in declared.items() if not one["description"]] == []


def test_the_defaults_with_a_server_are_those_of_its_request() -> None:
    """The action sends only what a workflow sets."""
    server = {field.name: field.default for field in msgspec.structs.fields(ProvisionRun)}
    (types,) = server["allowed_instance_types"]
    for name, default in (
        ("resource-class", server["resource_class"]),
        ("usage-class", f"or start {server['usage_class']}"),
        ("allowed-instance-types", types),
    ):
        assert f"[with server {default}, else " in INPUTS[name].description


def test_every_output_is_declared_and_comes_from_the_step() -> None:
    found = {name: one["value"] for name, one in manifest()["outputs"].items()}
    assert found == {name: f"${{{{ steps.bullpen.outputs.{name} }}}}" for name in OUTPUTS}


def test_no_input_is_written_into_a_script() -> None:
    (step,) = manifest()["runs"]["steps"]
    assert "${{" not in step["run"]
    assert step["run"].startswith("exec "), "a signal must reach the program, not a shell that waits for it"


def test_every_workflow_on_the_migration_page_is_valid_and_uses_known_inputs() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    used = [step for block in blocks for step in _steps(yaml.safe_load(block)) if "bullpen" in step.get("uses", "")]
    assert len(used) >= 4
    for step in used:
        read({name: re.sub(r"\$\{\{.*\}\}", "evaluated", str(value)) for name, value in step["with"].items()})


@pytest.mark.slow
def test_the_path_through_a_server_needs_only_the_standard_library() -> None:
    names = "via_server inputs job_context pool_location report cancellation install __main__"
    loads = f"import {', '.join(f'bullpen.action.{name}' for name in names.split())}, bullpen.cli.progress"
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {loads}"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


def _steps(found: object) -> list[dict[str, dict[str, str]]]:
    """The steps in a piece of a workflow: a list of them, or jobs."""
    if isinstance(found, list):
        return [one for one in found if isinstance(one, dict)]
    assert isinstance(found, dict)
    jobs = found.get("jobs", found)
    return [step for job in jobs.values() if isinstance(job, dict) for step in job.get("steps", [])]
