"""The picture of the whole on the first page of the docs, light and dark: `python tools/overview_picture.py`."""

from pathlib import Path
from xml.sax.saxutils import escape

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
LIGHT = {"ink": "#1f2328", "soft": "#57606a", "line": "#8c959f", "box": "#f6f8fa", "edge": "#d0d7de", "mark": "#3f51b5",
         "idle": "#dafbe1", "idle-edge": "#2da44e", "run": "#ddf4ff", "run-edge": "#0969da"}  # fmt: skip
DARK = {"ink": "#e6edf3", "soft": "#9198a1", "line": "#6e7681", "box": "#161b22", "edge": "#3d444d", "mark": "#8c9eff",
        "idle": "#12261e", "idle-edge": "#3fb950", "run": "#10233d", "run-edge": "#58a6ff"}  # fmt: skip
TITLE = "A run asks Bullpen for three runners: it selects idle ones, creates what is missing, commits all or none."
STEPS = (  # what Bullpen does, top to bottom: name, explanation
    ("select", "claim idle runners that fit"),
    ("create", "launch what is missing"),
    ("commit", "all verified, or none"),
    ("release", "deregister, clean, attest"),
)


def render(colours: dict[str, str]) -> str:
    parts = [
        _head(colours),
        _column(20, 210, "A workflow run", "GitHub Actions, or bullpen run"),
        _column(345, 270, "Bullpen", "commands, or bullpen serve"),
        _column(730, 210, "The pool", "processes, or EC2 machines"),
        _box(40, 100, 170, 50, "provision 3 runners"),
        _box(40, 200, 170, 50, "jobs run on them"),
        _box(40, 300, 170, 50, "release"),
    ]
    for row, (name, text) in enumerate(STEPS):
        parts.append(_step(365, 84 + row * 74, 230, name, text))
    for row, (name, kind) in enumerate((("idle, clean", "idle"), ("idle, clean", "idle"), ("new", "run"))):
        parts.append(_runner(750, 92 + row * 54, name, kind))
    parts += [
        _runner(750, 306, "idle, on offer again", "idle"),
        _arrow(210, 125, 365, 112),  # provision → select
        _arrow(750, 112, 595, 112),  # pool → select
        _arrow(595, 186, 750, 220),  # create → new machine
        _arrow(365, 258, 210, 225),  # commit → jobs
        _arrow(210, 325, 365, 332),  # release → release
        _arrow(595, 332, 750, 326),  # release → pool
        '<rect class="box" x="20" y="398" width="920" height="56" rx="10"/>',
        _text(480, 421, "Records are the truth: SQLite in one directory, or one DynamoDB table", "name", "middle"),
        _text(
            480,
            442,
            "no leader, no lock service; a runner that dies is noticed, and another takes its job",
            "soft",
            "middle",
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _head(colours: dict[str, str]) -> str:
    style = (
        "text{{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:14px;fill:{ink}}}"
        ".head{{font-size:17px;font-weight:700}}.name{{font-weight:600}}.soft{{fill:{soft};font-size:13px}}"
        ".mark{{fill:{mark};font-weight:700}}.box{{fill:{box};stroke:{edge}}}.step{{fill:none;stroke:{mark}}}"
        ".idle{{fill:{idle};stroke:{idle-edge}}}.run{{fill:{run};stroke:{run-edge}}}"
        ".arrow{{stroke:{line};stroke-width:1.8;fill:none;marker-end:url(#tip)}}.tip{{fill:{line}}}"
    ).format(**colours)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 470" role="img" aria-label="{escape(TITLE)}">\n'
        f"<title>{escape(TITLE)}</title>\n<style>{style}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0L10 5L0 10z"/></marker></defs>'
    )


def _column(x: int, width: int, head: str, below: str) -> str:
    middle = x + width // 2
    frame = f'<rect class="box" x="{x}" y="10" width="{width}" height="374" rx="10"/>'
    return "\n".join([frame, _text(middle, 38, head, "head", "middle"), _text(middle, 58, below, "soft", "middle")])


def _box(x: int, y: int, width: int, height: int, text: str) -> str:
    frame = f'<rect class="step" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
    return f"{frame}\n{_text(x + width // 2, y + height // 2 + 5, text, 'name', 'middle')}"


def _step(x: int, y: int, width: int, name: str, text: str) -> str:
    frame = f'<rect class="step" x="{x}" y="{y}" width="{width}" height="56" rx="8"/>'
    return "\n".join([frame, _text(x + 16, y + 23, name, "mark"), _text(x + 16, y + 43, text, "soft")])


def _runner(x: int, y: int, name: str, kind: str) -> str:
    frame = f'<rect class="{kind}" x="{x}" y="{y}" width="170" height="40" rx="8"/>'
    return f"{frame}\n{_text(x + 85, y + 25, name, 'name', 'middle')}"


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    bend = (x1 + x2) // 2
    return f'<path class="arrow" d="M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"/>'


def _text(x: int, y: int, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def files() -> dict[Path, str]:
    return {ASSETS / "overview-light.svg": render(LIGHT), ASSETS / "overview-dark.svg": render(DARK)}


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
