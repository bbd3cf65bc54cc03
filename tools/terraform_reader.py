"""Reads the HCL of the Terraform module as data, and evaluates the expressions that tests compare.

An expression is read as text in `${}`, the way Terraform's JSON syntax writes it. A nested block is a list with one
entry for each time it occurs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import hcl2

OPTIONS = hcl2.SerializationOptions(with_comments=False, explicit_blocks=False, strip_string_quotes=True)
REFERENCE = re.compile(r"\$\{([a-z_.]+)\}")
CALL = re.compile(r"\$\{([a-z]+)\((.*)\)\}", re.DOTALL)
HEREDOC = re.compile(r"<<-([A-Z]+)\n(.*\n) *\1", re.DOTALL)
COMPREHENSION = re.compile(r"\$\{\[for ([a-z]+) in (.+?) : (\".*\")\]\}")


def read(folder: Path) -> dict[str, Any]:
    """The whole module: {"locals": {name: …}, "resource": {type: {name: …}}, …}. A name that two blocks define is an
    error, as it is for Terraform."""
    module: dict[str, Any] = {}
    for file in sorted(folder.glob("*.tf")):
        for kind, blocks in hcl2.loads(file.read_text(), serialization_options=OPTIONS).items():
            depth = {"resource": 2, "data": 2}.get(kind, 1)
            for block in blocks:
                _merge(module.setdefault(kind, {}), block, depth, f"{file.name}: {kind}")
    return module


def _merge(into: dict[str, Any], block: Mapping[str, Any], depth: int, where: str) -> None:
    for name, content in block.items():
        if depth > 1:
            _merge(into.setdefault(name, {}), content, depth - 1, f"{where} {name}")
        elif name in into:
            raise ValueError(f"{where} {name} is defined twice")
        else:
            into[name] = content


def parsed(expression: str) -> Any:
    """The data that an expression of HCL stands for."""
    return hcl2.loads(f"value = {expression}\n", serialization_options=OPTIONS)["value"]


def encoded(expression: str) -> Any:
    """The argument of `jsonencode(…)`."""
    call = CALL.fullmatch(expression)
    assert call, expression
    assert call[1] == "jsonencode", expression
    return parsed(call[2])


def heredoc(text: str) -> str:
    """The text between `<<-EOT` and `EOT`, without the indentation."""
    found = HEREDOC.fullmatch(text)
    assert found, text
    return dedent(found[2])


def evaluated(value: Any, known: Mapping[str, Any]) -> Any:
    """The value with every reference in `known` replaced, and with lists put together as Terraform does it. References
    that are not known stay as they are."""
    match value:
        case str() if (reference := REFERENCE.fullmatch(value)) and reference[1] in known:
            return evaluated(known[reference[1]], known)
        case str() if loop := COMPREHENSION.fullmatch(value):
            items = evaluated(parsed(loop[2]), known)
            return [evaluated(parsed(loop[3]), {**known, loop[1]: item}) for item in items]
        case str() if (call := CALL.fullmatch(value)) and call[1] in ("concat", "coalescelist"):
            lists = evaluated(parsed(f"[{call[2]}]"), known)
            assert all(isinstance(one, list) for one in lists), f"{value} is made of {lists}"
            return [item for one in lists for item in one] if call[1] == "concat" else next(filter(None, lists))
        case str():
            return REFERENCE.sub(
                lambda found: evaluated(known[found[1]], known) if found[1] in known else found[0], value
            )
        case list():
            return [evaluated(one, known) for one in value]
        case dict():
            return {evaluated(key, known): evaluated(one, known) for key, one in value.items()}
    return value
