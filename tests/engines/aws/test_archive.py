"""The agent's archive: exactly what the agent needs, the same everywhere, and it runs on a bare Python."""

from __future__ import annotations

import ast
import bz2
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import bullpen
from bullpen.engines.aws.boot.archive import archive, packed

pytestmark = pytest.mark.slow

SOURCES = Path(bullpen.__file__).parent.parent
BARE = [sys.executable, "-I", "-S"]  # no site-packages, no environment
ITEM_LIMIT = 300 * 1024  # bytes; DynamoDB takes 400 KB
IMPORT_ALL = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib, zipfile
names = [name for name in zipfile.ZipFile(sys.argv[1]).namelist() if name.startswith("bullpen/")]
for name in names:
    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
strangers = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"bullpen", "__main__"}
print(len(names), *strangers)
assert all(sys.argv[1] in module.__file__ for name, module in sys.modules.items() if name.startswith("bullpen"))
"""


@pytest.fixture
def pyz(tmp_path: Path) -> Path:
    path = tmp_path / "agent.pyz"
    path.write_bytes(bz2.decompress(archive().content))
    return path


def names_in(content: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(bz2.decompress(content))).namelist()


def test_the_checksum_and_the_version_are_the_archives_own() -> None:
    found = archive()
    assert found.sha256 == hashlib.sha256(found.content).hexdigest()
    assert found.version == bullpen.__version__


def test_it_fits_into_one_item_with_room_to_grow() -> None:
    assert len(archive().content) < ITEM_LIMIT


def test_another_process_under_another_hash_seed_makes_the_same_bytes() -> None:
    code = "from bullpen.engines.aws.boot.archive import archive; print(archive().sha256)"
    command = [sys.executable, "-c", code]
    made = {
        subprocess.run(
            command,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(SOURCES), "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert made == {f"{archive().sha256}\n".encode()}


def test_the_archive_contains_nothing_of_the_machine_that_makes_it() -> None:
    with zipfile.ZipFile(io.BytesIO(bz2.decompress(archive().content))) as found:
        entries = found.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {(entry.date_time, entry.external_attr, entry.create_system, entry.compress_type) for entry in entries} == {
        ((1980, 1, 1, 0, 0, 0), 0o644 << 16, 3, zipfile.ZIP_STORED)
    }


def test_it_starts_on_a_bare_python(pyz: Path, tmp_path: Path) -> None:
    answer = subprocess.run(
        [*BARE, pyz, tmp_path / "absent.json"], capture_output=True, text=True, cwd="/", check=False
    )
    assert answer.returncode == 2
    assert "cannot start" in answer.stderr
    assert "absent.json" in answer.stderr


def test_every_module_in_it_imports_on_a_bare_python_and_loads_no_third_party(pyz: Path) -> None:
    answer = subprocess.run([*BARE, "-c", IMPORT_ALL, pyz], capture_output=True, text=True, cwd="/", check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == [str(len(names_in(archive().content)) - 1)]


def test_what_is_imported_later_is_in_it_too() -> None:
    names = set(names_in(archive().content))
    assert {"bullpen/agent/store/http.py", "bullpen/agent/store/jobs.py", "bullpen/model/worker.py"} <= names


def test_what_only_the_control_plane_needs_is_not_in_it() -> None:
    strangers = [name for name in names_in(archive().content) if name.startswith(("bullpen/cli", "bullpen/config"))]
    strangers += [name for name in names_in(archive().content) if name == "bullpen/agent/aws/boot.py"]
    assert strangers == []


def test_what_travels_in_user_data_is_only_what_fetches_the_agent() -> None:
    assert names_in(packed("bullpen.agent.aws.boot", {"told.json": b"{}"})) == [
        "__main__.py",
        "bullpen/__init__.py",
        "bullpen/agent/__init__.py",
        "bullpen/agent/aws/__init__.py",
        "bullpen/agent/aws/boot.py",
        "bullpen/agent/aws/dynamodb.py",
        "bullpen/agent/aws/imds.py",
        "bullpen/agent/aws/sigv4.py",
        "told.json",
    ]


def test_its_sources_are_those_of_the_installation() -> None:
    with zipfile.ZipFile(io.BytesIO(bz2.decompress(archive().content))) as found:
        for name in found.namelist():
            if name != "__main__.py":
                assert found.read(name) == (SOURCES / name).read_bytes()
            ast.parse(found.read(name))
