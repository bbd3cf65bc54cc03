"""A client that a generator made of the OpenAPI document does a run's work against a real `bullpen serve`."""

import json
import urllib.request
from pathlib import Path

import pytest

from bullpen import __version__
from server.served import a_server
from server.test_api_document import python_tools, run

__all__ = ["python_tools"]  # the fixture
SESSION = Path(__file__).with_name("generated_session.py")
pytestmark = [pytest.mark.slow, pytest.mark.engines]


def test_a_generated_client_provisions_runs_a_job_reads_its_log_and_releases(
    tmp_path: Path,
    python_tools: Path,
) -> None:
    with a_server(tmp_path / "home") as served:
        generate_and_use_a_client(tmp_path, served.url, python_tools)


def generate_and_use_a_client(folder: Path, url: str, python_tools: Path) -> None:
    """Make a client in `folder` of what the server at `url` says, and check what a program with it is answered."""
    with urllib.request.urlopen(f"{url}/v1/openapi.json") as answer:
        (folder / "openapi.json").write_bytes(answer.read())
    # It knows no zips, and leaves an operation out whose answer is one.
    (folder / "config.yaml").write_text(
        "post_hooks: []\ncontent_type_overrides:\n  application/zip: application/octet-stream\n"
    )
    generate = ["generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none"]
    command: list[str | Path] = [
        python_tools,
        "-m",
        "openapi_python_client",
        *generate,
        "--config",
        "config.yaml",
        "--fail-on-warning",
    ]
    ran = run(folder, *command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Warning" not in ran.stdout + ran.stderr
    ran = run(folder, python_tools, SESSION, folder, url)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = json.loads(ran.stdout)
    assert said["provisioned"] == ["succeeded", 1, 1]
    assert said["started"].endswith("+00:00")
    assert said["runs"] == [["4711", "running"]]
    state, result, exit_code, steps = said["job"]
    assert (state, result, exit_code, steps[0]) == ("finished", "failed", 3, "submit")
    assert (said["jobs"], said["logs"]) == ([True], "hello\n")
    assert said["released"] == ["succeeded", []]
    assert said["refused"] == [404, "not-found", __version__]
