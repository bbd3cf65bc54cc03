"""Measures Bullpen against its budgets: `make bench`.

Most rows are counts and virtual seconds on the memory engines, which repeat exactly; the rest are real: SQLite on this
disk, agents as processes on this machine, the AWS engines on local stand-ins, the start of the command line.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the stand-ins of the AWS engines are those of the tests
