"""Jobs on AWS: `bullpen serve` in between, machines that prove to it who they are, a runner killed under its job."""

import json
import signal
from typing import Any

from free_ports import a_free_port
from scenario.aws.pool import CloudPool
from scenario.commands import Command
from scenario.test_jobs_lost import gated


def served(pool: CloudPool) -> Command:
    """`bullpen serve` for this pool, listening; machines that are launched from now on use it."""
    port = a_free_port()
    pool.settings |= {
        "agent.serve-url": f"http://127.0.0.1:{port}",
        "aws.endpoints": f'{{sts = "{pool.cloud.url}"}}',  # where the proof of a machine is checked
        "timings.lease": 20,
        "timings.alive": 20,
        "liveness.confirm": 3,
        "liveness.grace-gap": 10,
    }
    pool.refresh()
    serving = pool.start("serve", "--port", str(port))
    pool.until(lambda: "listening" in serving.said() or serving.has_ended(), "it listens")
    return serving


def jobs(pool: CloudPool) -> dict[int, dict[str, Any]]:
    return {int(job["index"]): job for job in pool.ledger.items("Job").values()}


def test_a_job_whose_runner_is_killed_runs_again_on_another(pool: CloudPool) -> None:
    serving = served(pool)
    file = pool.folder / "jobs.jsonl"
    file.write_text("".join(json.dumps(gated(pool.folder)) + "\n" for _ in range(2)))
    running = pool.start("run", "--run-id", "run-1", "--count", "2", "--jobs", str(file))
    pool.until(lambda: [job["state"] for job in jobs(pool).values()] == ["running"] * 2, "both jobs run")
    victim = jobs(pool)[0]["instanceId"]
    pool.signal(victim, signal.SIGKILL)
    pool.until(lambda: jobs(pool)[0]["fence"] == 2 and jobs(pool)[0]["state"] == "running", "it runs again")
    assert jobs(pool)[0]["instanceId"] != victim
    for index in range(2):
        (pool.folder / str(index)).touch()
    ran = running.wait()
    assert ran.code == 0, ran
    assert [job["result"] for job in jobs(pool).values()] == ["succeeded"] * 2
    serving.send(signal.SIGTERM)
    assert serving.wait().code == 0
    pool.settle()
    assert victim not in pool.live()
    assert pool.audit() == []
