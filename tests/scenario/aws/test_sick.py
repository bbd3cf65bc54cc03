"""Machines that fall silent, fail to boot, or are taken away: replaced, ended, and the reason shown."""

import signal

from scenario.aws.pool import CloudPool
from scenario.test_everyday import ids


def test_a_mute_instance_is_replaced_within_the_wait_and_ended_with_the_reason(pool: CloudPool) -> None:
    pool.settings |= {"timings.registration": 4, "timings.hedge": 1}
    mute, other = pool.warm(2)
    pool.signal(mute, signal.SIGSTOP)
    answer = pool.provision("run-1", 2)
    assert other in ids(answer)
    assert (mute in ids(answer), answer["created"]) == (False, 1)
    assert [(one["instanceId"], one["outcome"]) for one in answer["discarded"]] == [(mute, "terminated")]
    assert answer["discarded"][0]["reason"] in pool.story(mute)
    assert mute not in pool.existing()
    assert pool.audit() == []


def test_a_machine_that_is_gone_is_not_handed_out_and_refresh_buries_its_record(pool: CloudPool) -> None:
    dead, other = pool.warm(2)
    pool.signal(dead, signal.SIGKILL)
    pool.until(lambda: dead not in pool.existing(), "its machine shuts down with its agent")
    reasons = {one["subject"]: one["reason"] for one in pool.refresh() if one["what"] == "terminate"}
    assert reasons == {dead: "its machine is gone"}
    assert pool.live() == [other]
    assert pool.audit() == []


def test_a_pre_runner_script_that_fails_is_quoted(pool: CloudPool) -> None:
    pool.refresh()
    script = "echo looking for the toolchain; echo no toolchain here >&2; exit 3"
    pool.settings |= {"agent.pre-runner-script": script, "agent.pre-runner-timeout": 10}
    answer = pool.refused("run-1", 1)
    assert "exit code 3" in answer["reason"]
    assert "no toolchain here" in answer["reason"]
    (failed,) = answer["discarded"]
    assert "no toolchain here" in pool.run("why", failed["instanceId"]).out
    assert pool.existing() == []
    assert pool.audit() == []


def test_spot_machines_with_a_notice_serve_no_run(pool: CloudPool) -> None:
    """One that is claimed says so at once, and is replaced; one that is idle is ended by refresh."""
    pool.refresh()
    of = {}
    for domain in ("a", "b"):  # so that each is claimed by its own kind only
        of[domain] = pool.start_provision(f"old-{domain}", 1, "--usage-class", "spot", "--trust-domain", domain)
    claimed, idle = (ids(command.wait().answer)[0] for command in of.values())
    for command in [pool.start("release", "--run-id", f"old-{domain}") for domain in of]:
        assert command.wait().code == 0
    for id in (claimed, idle):
        pool.cloud.interrupt(id)
    pool.until(lambda: all("leaving" in one for one in pool.ledger.items("Heartbeat").values()), "both have noticed")
    answer = pool.provision("run-1", 1, "--usage-class", "spot", "--trust-domain", "a")
    assert (answer["created"], [one["instanceId"] for one in answer["discarded"]]) == (1, [claimed])
    assert "spot interruption" in answer["discarded"][0]["reason"]
    reasons = {one["subject"]: one["reason"] for one in pool.refresh() if one["what"] == "terminate"}
    assert list(reasons) == [idle]
    assert "taken away" in reasons[idle]
    assert pool.existing() == ids(answer)
    assert pool.audit() == []
