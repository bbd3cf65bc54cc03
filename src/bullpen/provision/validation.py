"""Validation: a new machine is good once its pre-runner script is done and it has registered, in this round."""

from bullpen.config import Timings
from bullpen.errors import ProvisionFailed
from bullpen.model.instance import Instance
from bullpen.model.signal import Kind
from bullpen.pool.watcher import Failed, Watcher, reaching


async def validate(watcher: Watcher, timings: Timings, created: Instance) -> None:
    """Return once the instance has registered; a failure signal ends the wait. Liveness is judged last, for all."""
    match await watcher.first({created.id: reaching(Kind.REG_OK, created.round)}, timings.validation):
        case None:
            raise ProvisionFailed(
                f"{created.id} did not get ready within {timings.validation:g} s",
                remedy="look at the agent's log, and at timings.validation if its pre-runner script takes long",
            )
        case (_, Failed(reason)):
            raise ProvisionFailed(
                f"{created.id} failed: {reason}",
                remedy="repair what its last words name: the boot, the pre-runner script or the registration",
            )
