"""TerminateInstances for several machines, of which some may be unknown, protected or no machines at all.

EC2 ends all or none: one bad id spoils the whole call. So the bad ones are taken out, as far as EC2 names them, and
otherwise found by halving.
"""

import re
from collections.abc import Sequence
from dataclasses import field

from bullpen.engines.aws.ec2.client import ask
from bullpen.engines.aws.errors import Declined
from bullpen.engines.aws.session import Cloud
from bullpen.lazy_dataclass import dataclass

MISSING = "InvalidInstanceID.NotFound"
MALFORMED = "InvalidInstanceID.Malformed"
PROTECTED = "OperationNotPermitted"  # its termination protection is on
UNTAGGED = "UnauthorizedOperation"


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of the ids: the state of each now, or why it has none. Those that are protected stay as they are,
    with what EC2 says of them."""

    states: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    protected: dict[str, str] = field(default_factory=dict)


async def terminate(cloud: Cloud, ids: Sequence[str], *, are_seen: bool = True) -> Ending:
    """End these machines, all in one call if none of them is bad. To end one twice is no mistake.

    The policy allows to end only what carries the pool's tag. A machine that does not exist carries none, so where EC2
    does not list them (`are_seen`) a denial says no more than that they are missing.
    """
    ending = Ending()
    expected = (MISSING, MALFORMED, PROTECTED) if are_seen else (MISSING, MALFORMED, PROTECTED, UNTAGGED)
    waiting = [list(ids)]
    while waiting:
        chunk = waiting.pop()
        if not chunk:
            continue
        try:
            answer = await ask(cloud, "terminate_instances", expecting=expected, InstanceIds=chunk)
        except Declined as declined:
            if not (bad := _named(declined.response["Error"].get("Message", ""), chunk)):
                half = len(chunk) // 2
                waiting += [chunk[:half], chunk[half:]]
                continue
            if declined.code in (MISSING, UNTAGGED):
                ending.missing.extend(bad)
            elif declined.code == MALFORMED:
                ending.malformed.extend(bad)
            elif declined.code == PROTECTED:
                ending.protected.update(dict.fromkeys(bad, declined.message))
            waiting.append([id_ for id_ in chunk if id_ not in bad])
        else:
            for one in answer.get("TerminatingInstances", ()):
                ending.states[one["InstanceId"]] = one.get("CurrentState", {}).get("Name", "")
    return ending


def _named(message: str, chunk: list[str]) -> list[str]:
    """Those ids of the chunk that a message speaks of; the only one there is, whatever it says."""
    if len(chunk) == 1:
        return chunk
    return [id_ for id_ in chunk if re.search(rf"(?<![\w-]){re.escape(id_)}(?![\w-])", message)]
