"""What to do next, for programs: endpoints instead of the commands of a terminal; and back, for a person at one.

A remedy that concerns the server itself, such as `bullpen refresh`, stays: its operator runs that on its machine.
"""

DESCRIBED = "Correct the request: GET /v1/openapi.json describes what it may contain."
UNKNOWN_ID = "Check the id: GET /v1/runs, /v1/instances, /v1/jobs and /v1/workers list what there is."
ANOTHER_STATE = "Read its state again, and decide by that whether to ask again."

TERMS = {
    "Run `bullpen job list --run-id ID` to list the jobs": "GET /v1/jobs?runId=ID lists the jobs",
    "Run `bullpen status` to list what there is": "GET /v1/runs, /v1/instances and /v1/workers list what there is",
    "Run `bullpen status` to list the runs": "GET /v1/runs lists the runs",
    "Begin a new one with `bullpen provision --run-id ID --count N`": "POST /v1/runs/ID/provision begins a new one",
}
"""What a remedy says at a terminal, and over HTTP."""
FOR_PROGRAMS = (DESCRIBED, UNKNOWN_ID, ANOTHER_STATE)
"""Remedies that help a program, and no person whose command asked."""


def over_http(remedy: str) -> str:
    for said, asked in TERMS.items():
        remedy = remedy.replace(said, asked)
    return remedy


def at_a_terminal(remedy: str) -> str:
    for said, asked in TERMS.items():
        remedy = remedy.replace(asked, said)
    return "" if remedy in FOR_PROGRAMS else remedy
