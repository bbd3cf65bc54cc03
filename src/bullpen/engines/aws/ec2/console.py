"""The console output of EC2 machines: `ports.MachineLogs`. Bullpen opens no connection to a machine, so the logs of the
agent are not there; what a boot and the agent print on the console is."""

from bullpen.engines.aws.ec2.client import ask
from bullpen.engines.aws.errors import Declined
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError, PermissionDenied
from bullpen.ports.machine_logs import FoundLogs, MachineLog

CONSOLE = "console.log"
NO_LATEST = ("UnsupportedOperation", "InvalidParameterCombination", "InvalidParameterValue")
"""Older types have no output of this moment, but only that of the boot."""
UNKNOWN = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
ON_THE_MACHINE = "it is on the machine, to which Bullpen opens no connection"


class ConsoleLogs:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def read(self, instance_id: str, limit: int) -> FoundLogs:
        missing = {"agent.log": ON_THE_MACHINE}
        try:
            content = await self._console(instance_id)
        except Declined as declined:
            return FoundLogs(missing=missing | {CONSOLE: f"EC2 does not know this machine any more ({declined.code})"})
        except PermissionDenied as exc:
            why = f"{exc}; `bullpen iam-policy control-plane` prints a policy with ec2:GetConsoleOutput"
            return FoundLogs(missing=missing | {CONSOLE: why})
        except BullpenError as exc:
            return FoundLogs(missing=missing | {CONSOLE: str(exc)})
        if not content:
            return FoundLogs(missing=missing | {CONSOLE: "EC2 has none yet: it takes some minutes after the launch"})
        return FoundLogs({CONSOLE: MachineLog(content[-limit:], len(content))}, missing)

    async def _console(self, instance_id: str) -> bytes:
        """Raise Declined for a machine that EC2 does not know."""
        try:
            answer = await ask(
                self._cloud,
                "get_console_output",
                expecting=(*NO_LATEST, *UNKNOWN),
                InstanceId=instance_id,
                Latest=True,
            )
        except Declined as declined:
            if declined.code in UNKNOWN:
                raise
            answer = await ask(self._cloud, "get_console_output", expecting=UNKNOWN, InstanceId=instance_id)
        return str(answer.get("Output") or "").encode()  # the client has decoded it
