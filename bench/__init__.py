"""Measures Bullpen against its budgets: `make bench`.

Most rows are counts and virtual seconds on the memory engines, which repeat exactly; the rest are real: SQLite on this
disk, agents as processes on this machine, the start of the command line.
"""
