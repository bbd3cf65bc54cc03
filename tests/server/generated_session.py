"""A program against the HTTP API, with the client that openapi-python-client generated as the package `generated`.

python generated_session.py FOLDER_WITH_THE_PACKAGE URL → provision → job → logs → release, told as JSON. Run by the
environment that has what generated clients import, so it imports nothing of Bullpen.
"""
# mypy: ignore-errors

import json
import sys
import time

folder, url = sys.argv[1:]
sys.path.insert(0, folder)

from generated import Client  # noqa: E402
from generated.api.jobs import list_jobs, read_job_logs, show_job, submit_job  # noqa: E402
from generated.api.operations import show_operation  # noqa: E402
from generated.api.runs import list_runs, provision_run, release_run, show_run  # noqa: E402
from generated.models import ErrorAnswer, JobState, OperationState, ProvisionOperation, ProvisionRun, SubmitJob  # noqa: E402

PATIENCE = 120.0  # seconds

client = Client(base_url=url, timeout=PATIENCE)


def ended(operation):
    until = time.monotonic() + PATIENCE
    while operation.state is OperationState.RUNNING and time.monotonic() < until:
        time.sleep(0.1)
        operation = show_operation.sync(operation.id, client=client)
    return operation


provisioned = ended(provision_run.sync("4711", client=client, body=ProvisionRun(count=1), idempotency_key="first"))
assert isinstance(provisioned, ProvisionOperation), provisioned
job = submit_job.sync(client=client, body=SubmitJob(run_id="4711", command=["sh", "-c", "echo hello; exit 3"]))
until = time.monotonic() + PATIENCE
while job.state is not JobState.FINISHED and time.monotonic() < until:
    time.sleep(0.1)
    job = show_job.sync(job.id, client=client)
runs = list_runs.sync(client=client)
released = ended(release_run.sync("4711", client=client))
refused = show_run.sync_detailed("never", client=client)
assert isinstance(refused.parsed, ErrorAnswer), refused
print(
    json.dumps(
        {
            "provisioned": [provisioned.state.value, provisioned.result.requested, len(provisioned.result.instances)],
            "started": provisioned.started_at.isoformat(),
            "runs": [(one.id, one.state.value) for one in runs.runs],
            "job": [job.state.value, job.result.value, job.exit_code, [line.step for line in job.story]],
            "jobs": [one.id == job.id for one in list_jobs.sync(client=client, run_id="4711").jobs],
            "logs": read_job_logs.sync_detailed(job.id, client=client).content.decode(),
            "released": [released.state.value, released.result.pending],
            "refused": [refused.status_code.value, refused.parsed.code.value, refused.headers["bullpen-version"]],
        }
    )
)
