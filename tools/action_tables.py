"""The inputs in `action.yml` and the tables in docs/migration.md, generated from `bullpen.action`.

`python tools/action_tables.py` writes both.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from bullpen.action.aliases import ALIASES, Alias
from bullpen.action.input_specs import ACTIONS, BULLPEN, INPUTS, MODES, OUTPUTS

ROOT = Path(__file__).parents[1]
ACTION, PAGE = ROOT / "action.yml", ROOT / "docs/migration.md"
HEAD = "| input | here |\n|---|---|\n"


def declared() -> str:
    """The inputs and outputs of action.yml. Defaults are empty, so that the program can tell which inputs are set."""
    lines = ["inputs:"]
    for one in INPUTS.values():
        lines += _declared(one.name, one.description)
    lines.append("  # Inputs of other actions, see docs/migration.md.")
    for alias in ALIASES.values():
        lines += _declared(alias.name, f"{' and '.join(alias.actions)}: {_plain(alias)}")
    lines.append("outputs:")
    for name, description in OUTPUTS.items():
        value = f"${{{{ steps.bullpen.outputs.{name} }}}}"
        lines += [f"  {name}:", f"    description: {json.dumps(description)}", f"    value: {value}"]
    return "\n".join(lines) + "\n"


def meaning(action: str) -> str:
    """The table of one action's inputs."""
    rows = [(one.name, _described(one.name, action)) for one in INPUTS.values() if action in one.actions]
    rows += [(alias.name, _here(alias)) for alias in ALIASES.values() if action in alias.actions]
    return HEAD + "".join(f"| `{name}` | {_cell(here)} |\n" for name, here in rows)


def drawn() -> Iterator[tuple[Path, str, str, str]]:
    """Each generated part: file, first line, last line, and the text between them."""
    yield ACTION, "# generated from bullpen.action: begin\n", "# generated from bullpen.action: end\n", declared()
    for action in (*ACTIONS, BULLPEN):
        yield PAGE, f"<!-- {action}: begin -->\n", f"<!-- {action}: end -->\n", meaning(action)


def published(file: Path, begin: str, end: str) -> str:
    return file.read_text().partition(begin)[2].partition(end)[0]


def publish() -> None:
    for file, begin, end, text in drawn():
        before, found, rest = file.read_text().partition(begin)
        assert found, f"{file}: has no line {begin}"
        file.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}")


def _declared(name: str, description: str) -> list[str]:
    return [f"  {name}:", f"    description: {json.dumps(description, ensure_ascii=False)}", '    default: ""']


def _described(name: str, action: str) -> str:
    return f"the same. {INPUTS[name].description}" if action != BULLPEN else INPUTS[name].description


def _here(alias: Alias) -> str:
    if alias.means:
        return f"`{alias.means}`"
    if alias.values:
        each = (
            f"`{value}` → " + ", ".join(f"`{name}: {meant}`" for name, meant in means.items())
            for value, means in alias.values.items()
        )
        return "; ".join(each) + "; anything else is an error"
    if alias.why:
        return f"accepted without effect: {alias.why}"
    same = (
        f"{', '.join(f'`{value}`' for value in alias.same)} is the only supported value"
        if alias.same
        else "not supported"
    )
    return f"{same}. {alias.instead}"


def _plain(alias: Alias) -> str:
    return _here(alias).replace("`", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    publish()
    print(f"{len(INPUTS)} inputs, {len(ALIASES)} aliases, {len(MODES)} modes, {len(OUTPUTS)} outputs")
