"""The audit of a pool on AWS is no rubber stamp: each kind of damage, done by hand, is found and named."""

import signal
from typing import Any

from scenario.aws.pool import CloudPool


def write(pool: CloudPool, kind: str, id: str, **values: Any) -> None:
    """Set attributes of an item without any process knowing."""
    pool.ledger.dynamodb.update_item(
        TableName=pool.name,
        Key={"PK": {"S": f"TYPE#{kind}"}, "SK": {"S": f"ID#{id}"}},
        UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in values),
        ExpressionAttributeNames={f"#{name}": name for name in values},
        ExpressionAttributeValues={f":{name}": value for name, value in values.items()},
    )


def test_damage_is_found_and_named(pool: CloudPool) -> None:
    """One damage after the other: each adds its own complaint."""
    pool.warm(2)
    pool.provision("run-1", 1)
    (idle,), (runs,) = pool.on_offer(), pool.ids("running")
    assert pool.audit() == []
    pool.signal(idle, signal.SIGSTOP)  # it would do as its record says
    write(pool, "Registration", runs, label={"S": "run-9"})
    assert pool.audit() == [f"{runs} is registered for run-9, which it does not serve"]
    write(pool, "Registration", runs, label={"S": "run-1"})
    (provision,) = (id for id, one in pool.ledger.items("Provision").items() if one["runId"] == "run-1")
    write(pool, "Provision", provision, state={"S": "aborted"})
    assert pool.audit() == [f"{runs} runs for {provision}, which has not committed"]
    write(pool, "Provision", provision, state={"S": "committed"})
    write(pool, "Instance", idle, attested={"BOOL": False}, runId={"S": "run-2"})
    found = "\n".join(pool.audit())
    assert f"{idle} is idle, neither running nor on offer" in found
    assert f"a ticket offers {idle}" in found
    write(pool, "Instance", idle, state={"S": "terminated"})
    found = "\n".join(pool.audit())
    assert f"machine {idle} is running without a live record" in found
    assert f"process {pool.agent(idle)} of {idle} runs without a live record" in found
    pool.signal(runs, signal.SIGKILL)
    pool.until(lambda: runs not in pool.existing(), "its machine shuts down with its agent")
    assert f"{runs} is running and has no machine" in pool.audit()
