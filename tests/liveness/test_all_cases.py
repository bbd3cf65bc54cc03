"""The checklist is complete: each of its 63 cases is the prefix of one test's name."""

import ast
import re
from pathlib import Path

CASES = 63


def test_every_case_of_the_checklist_is_one_test() -> None:
    names = [
        node.name
        for source in sorted(Path(__file__).parent.glob("test_*.py"))
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = [int(match[1]) for name in names if (match := re.match(r"test_case_(\d\d)_", name))]
    assert sorted(found) == list(range(1, CASES + 1))
