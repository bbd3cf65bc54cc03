"""Every word and name that is stored, or that travels, is known to this version as it was to the one before.

Many of them turn up only in a pool that is in a certain state at the moment of the upgrade. And a reader takes a
default for an attribute that it does not find under the name that it looks for.
"""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import bullpen
from scenario.upgrade.installed import Installed

NOW = Path(bullpen.__file__).parents[1]
INSIDE = {"take", "put back", "drop"}  # what becomes of a ticket: decided and carried out in one process
WORDS = """
import enum, importlib, json, pkgutil
import bullpen.model

modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(bullpen.model.__path__, "bullpen.model.")]
kinds = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
print(json.dumps([str(word.value) for kind in kinds if issubclass(kind, enum.Enum) for word in kind]))
"""
ATTRIBUTES = """
import json
from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints
from bullpen.engines.aws.dynamodb.items import SHAPES
from bullpen.model.transition import StoryLine
from bullpen.model.worker import Card

def inner(kind):
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return [kind.__name__ + "." + one.name for one in fields(kind)] + [
            name for one in fields(kind) for name in inner(hints[one.name])
        ]
    return [name for part in get_args(kind) for name in inner(part)]

records = [shape.kind + "." + one.attribute for shape in SHAPES.values() for one in shape.fields.values()]
parts = [name for shape in SHAPES.values() for hint in get_type_hints(shape.record).values() for name in inner(hint)]
print(json.dumps(records + parts + inner(Card) + inner(StoryLine)))
"""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Installed.before(tmp_path_factory.mktemp("before")).folder


def said(program: str, tree: Path) -> set[str]:
    line, environ = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": str(tree)}
    return set(json.loads(subprocess.run(line, env=environ, capture_output=True, text=True, check=True).stdout))


def columns(tree: Path) -> set[tuple[Any, ...]]:
    """Of a home that is made now: table and column."""
    scripts = {int(file.stem.partition("-")[2] or 1): file for file in tree.rglob("schema*.sql")}
    with closing(sqlite3.connect(":memory:")) as connection:
        for number in sorted(scripts):
            connection.executescript(scripts[number].read_text())
        told = "SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'"
        return set(connection.execute(told).fetchall())


def test_no_word_of_the_model_is_renamed(before: Path) -> None:
    known = said(WORDS, before)
    assert {"running", "UD_OK", "succeeded", "await-and-offer"} < known
    assert known - said(WORDS, NOW) - INSIDE == set()


def test_no_attribute_of_a_record_in_the_table_is_renamed(before: Path) -> None:
    known = said(ATTRIBUTES, before)
    assert {"Instance.trustDomain", "Heartbeat.seq", "Job.losses", "StoryLine.why", "Card.pid"} < known
    assert known - said(ATTRIBUTES, NOW) == set()


def test_no_column_of_a_home_is_renamed(before: Path) -> None:
    known = columns(before)
    assert {("jobs", "losses"), ("provisions", "waits_for"), ("keys", "content")} < known
    assert known - columns(NOW / "bullpen") == set()
