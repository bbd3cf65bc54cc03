"""Jobs: commands that a run wants executed by its runners, at least once, with exactly one result.

submit → a worker of the run takes it → it runs → finish, or lost and taken by another → the one result

The queue is the embedded engine's own CI. `request` checks what is asked for, `assignment` gives jobs to workers and
takes their results, `ending` has every other way out: cancelled, given back, its run over, no runner left.
"""

from bullpen.jobs.assignment import StaleResult, finish, postpone, take
from bullpen.jobs.ending import cancel, conclude, give_back, give_up_stranded
from bullpen.jobs.queries import find, of_run
from bullpen.jobs.request import JobRequest, check_served, checked, id_of_key, request_of, submit

__all__ = [
    "JobRequest",
    "StaleResult",
    "cancel",
    "check_served",
    "checked",
    "conclude",
    "find",
    "finish",
    "give_back",
    "give_up_stranded",
    "id_of_key",
    "of_run",
    "postpone",
    "request_of",
    "submit",
    "take",
]
