"""The agent's archive: what an instance fetches from the table and runs, with nothing installed but Python.

It holds exactly the modules that the agent imports, found by following the imports. The same sources make the same
bytes on every machine, for its checksum is part of the user data, and so of the launch template's name: two machines
that disagreed would make templates in turns. Hence a fixed order, times and modes, no compression inside the zip, and
bzip2 around it: deflate's output differs between versions of zlib, bzip2's does not.
"""

import ast
import bz2
import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path

import bullpen
from bullpen.lazy_dataclass import dataclass

BEGINNING = (1980, 1, 1, 0, 0, 0)  # of time, as zip files count it
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # where statements stand within others
MAIN = "import sys\n\nfrom {module} import main\n\nsys.exit(main(sys.argv[1:]))\n"


@dataclass(frozen=True, slots=True)
class Archive:
    """`content` is a zip application, packed with bzip2; `sha256` is that of `content`, in hexadecimal."""

    content: bytes
    sha256: str
    version: str


@cache
def archive() -> Archive:
    """The agent of this installation."""
    content = packed("bullpen.agent.__main__")
    return Archive(content, hashlib.sha256(content).hexdigest(), bullpen.__version__)


def packed(module: str, beside: Mapping[str, bytes] | None = None) -> bytes:
    """A zip application that calls `main` of a module of Bullpen with its arguments, packed with bzip2."""
    files = {"__main__.py": MAIN.format(module=module).encode(), **(beside or {}), **_sources(module)}
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, source in sorted(files.items()):
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.create_system = 3  # as on Linux, wherever this runs
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source)
    return bz2.compress(content.getvalue())


@cache
def _sources(module: str) -> Mapping[str, bytes]:
    """The modules of Bullpen that one needs, itself included: the name in the archive → the source.

    Found once: every look at the launch templates asks for the user data, and following imports is what takes time.
    """
    above = Path(bullpen.__file__).parent.parent
    found: dict[str, bytes] = {}
    names = [module]
    while names:
        path = Path(*names.pop().split("."))
        file = next((one for one in (path.with_suffix(".py"), path / "__init__.py") if (above / one).is_file()), None)
        if file is None or str(file) in found:
            continue  # no module, but something in one
        found[str(file)] = source = (above / file).read_bytes()
        names += [".".join(package.parts) for package in path.parents if package.parts]
        names += (name for name in _imported(source) if name.partition(".")[0] == "bullpen")
    return found


def _imported(source: bytes) -> Iterator[str]:
    """Everything that a module may import, also later and within a function."""
    blocks: list[ast.AST] = [ast.parse(source)]
    while blocks:
        match node := blocks.pop():
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:  # an import is a statement: expressions, most of a module, hold none
                blocks += (inner for name in BLOCKS for inner in getattr(node, name, ()))
