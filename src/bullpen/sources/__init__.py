"""Sources: the files of a project, sent to the store of a pool once, for every job of a run.

    find_work_tree → list_files → hash what has changed → ask what the store lacks → pack and send that → manifest

`send` does all of it, and raises ConfigError for a tree that cannot be sent, before any runner is acquired. It meets
the store through `SourceStore`: `ports.sources` is one, and a client of `bullpen serve` has another.
"""

from bullpen.sources.artifacts import fetch_artifacts
from bullpen.sources.packing import Sent, SourceStore, send
from bullpen.sources.work_tree import find_work_tree

__all__ = ["Sent", "SourceStore", "fetch_artifacts", "find_work_tree", "send"]
