"""The table of settings in docs/operating.md, generated from `config.py` by `python tools/settings_table.py`.

Names, variables and defaults come from the settings themselves; the meaning is the comment beside each one.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT, structs

from bullpen import config
from bullpen.config import ResourceClass, ScaleSetSettings, ScheduleEntry, Settings
from bullpen.settings.setting import SCALE_SETS, Setting, known_settings

PAGE = Path(__file__).parents[1] / "docs/operating.md"
BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"

HEAD = "| setting | variable | default | meaning |\n|---|---|---|---|\n"


def render() -> str:
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows())


def published() -> str:
    """The table that the page shows."""
    return PAGE.read_text().partition(BEGIN + "\n")[2].partition(END)[0]


def publish() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN + "\n")
    PAGE.write_text(f"{before}{BEGIN}\n{render()}{END}{rest.partition(END)[2]}")


def _rows() -> Iterator[tuple[str, str, str, str]]:
    reasons, built_in = _reasons(), Settings().classes
    for name, setting in known_settings([]).items():
        table, _, key = name.partition(".")
        reason = reasons[type(getattr(Settings(), table)).__name__, key.replace("-", "_")]
        yield f"`{name}`", f"`{setting.variable}`", f"`{_toml(setting.default)}`", reason
    for field in structs.fields(ScaleSetSettings):
        name, reason = f"{SCALE_SETS}.NAME.{field.encode_name}", reasons["ScaleSetSettings", field.name]
        default = "none" if field.default is NODEFAULT else f"`{_toml(field.default)}`"
        yield f"`{name}`", f"`{Setting(name, None, None).variable}`", default, reason
    for field in structs.fields(ResourceClass):
        defaults = dict.fromkeys(_toml(getattr(one, field.name)) for one in built_in.values())
        name, variable = f"classes.NAME.{field.encode_name}", f"BULLPEN_CLASSES_NAME_{field.name.upper()}"
        yield f"`{name}`", f"`{variable}`", f"`{' · '.join(defaults)}`", reasons["ResourceClass", field.name]
    for field in structs.fields(ScheduleEntry):
        default = "none" if field.default is NODEFAULT else f"`{_toml(field.default)}`"
        name = f"classes.NAME.schedule[].{field.encode_name}"
        yield f"`{name}`", "in that of the list", default, reasons["ScheduleEntry", field.name]


def _reasons() -> dict[tuple[str, str], str]:
    """The comment at the end of each setting's line, by table and field."""
    source = Path(config.__file__).read_text()
    lines = source.splitlines()
    found = {}
    for table in [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]:
        for field in [node for node in table.body if isinstance(node, ast.AnnAssign)]:
            assert isinstance(field.target, ast.Name)
            found[table.name, field.target.id] = lines[(field.end_lineno or field.lineno) - 1].partition("  # ")[2]
    return found


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{}"
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return f'"{value}"'
        case bool():
            return str(value).lower()
    return f"{value:g}"


if __name__ == "__main__":
    publish()
