"""The inputs as `action.yml` declares them and docs/migration.md lists them, drawn from `bullpen.action`.

`python tools/action_tables.py` draws both anew.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from bullpen.action.aliases import ALIASES, Alias
from bullpen.action.input_specs import ACTIONS, INPUTS, MODES, OURS, OUTPUTS

ROOT = Path(__file__).parents[1]
ACTION, PAGE = ROOT / "action.yml", ROOT / "docs/migration.md"
HEAD = "| input | here |\n|---|---|\n"


def declared() -> str:
    """The inputs and outputs of action.yml. Everything has an empty default: the program knows what is left out."""
    lines = ["inputs:"]
    for one in INPUTS.values():
        lines += _declared(one.name, one.says)
    lines.append("  # Words of other actions: see docs/migration.md.")
    for alias in ALIASES.values():
        lines += _declared(alias.name, f"{' and '.join(alias.whose)}: {_plain(alias)}")
    lines.append("outputs:")
    for name, says in OUTPUTS.items():
        value = f"${{{{ steps.bullpen.outputs.{name} }}}}"
        lines += [f"  {name}:", f"    description: {json.dumps(says)}", f"    value: {value}"]
    return "\n".join(lines) + "\n"


def meaning(action: str) -> str:
    """The table of one action's inputs."""
    rows = [(one.name, _says(one.name, action)) for one in INPUTS.values() if action in one.whose]
    rows += [(alias.name, _here(alias)) for alias in ALIASES.values() if action in alias.whose]
    return HEAD + "".join(f"| `{name}` | {_cell(here)} |\n" for name, here in rows)


def drawn() -> Iterator[tuple[Path, str, str, str]]:
    """Each drawn part: file, how it begins and ends there, and what is between."""
    yield ACTION, "# drawn from bullpen.action: begin\n", "# drawn from bullpen.action: end\n", declared()
    for action in (*ACTIONS, OURS):
        yield PAGE, f"<!-- {action}: begin -->\n", f"<!-- {action}: end -->\n", meaning(action)


def published(file: Path, begin: str, end: str) -> str:
    return file.read_text().partition(begin)[2].partition(end)[0]


def publish() -> None:
    for file, begin, end, text in drawn():
        before, found, rest = file.read_text().partition(begin)
        assert found, f"{file}: has no line {begin}"
        file.write_text(f"{before}{begin}{text}{end}{rest.partition(end)[2]}")


def _declared(name: str, says: str) -> list[str]:
    return [f"  {name}:", f"    description: {json.dumps(says, ensure_ascii=False)}", '    default: ""']


def _says(name: str, action: str) -> str:
    return f"the same. {INPUTS[name].says}" if action != OURS else INPUTS[name].says


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
        return f"accepted, not needed: {alias.why}"
    same = (
        f"{', '.join(f'`{value}`' for value in alias.same)} is what is done anyway; else an error"
        if alias.same
        else "an error"
    )
    return f"{same}. {alias.instead}"


def _plain(alias: Alias) -> str:
    return _here(alias).replace("`", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    publish()
    print(f"{len(INPUTS)} inputs, {len(ALIASES)} aliases, {len(MODES)} modes, {len(OUTPUTS)} outputs")
