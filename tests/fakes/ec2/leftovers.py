"""What a killed cloud leaves behind: instances that no process would end any more."""

import re
from pathlib import Path

from bullpen.host.processes import end_tree, mark_of

PATIENCE = 120.0  # seconds; a killed tree is gone within milliseconds
INSTANCE_ID = re.compile(r"i-0[0-9a-f]{16}")


def end_leftovers(folder: Path) -> list[str]:
    """End what still runs of instances that were launched below `folder`; return their ids."""
    ids = [path.name for path in folder.glob("i-0*") if INSTANCE_ID.fullmatch(path.name)]
    return [id for id in sorted(ids) if end_tree(None, mark_of(id), patience=PATIENCE)]
