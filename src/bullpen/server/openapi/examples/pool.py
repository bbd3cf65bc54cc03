"""The pool as it is: status, instances, workers, orders of operators, events and sessions."""

from bullpen.auth.tokens import Scope
from bullpen.liveness.schema import Binding, HeartbeatAnswer, HeartbeatRequest
from bullpen.model.worker import State as WorkerState
from bullpen.schema import (
    instance,
    pause,
    session,
    status,
    worker,
)
from bullpen.schema.error import ErrorCode
from bullpen.server.openapi.examples.subjects import BEGAN, ENDED, INSTANCE, JOB, LATER, RUNNER, Example
from bullpen.server.routes.github import Delivered
from bullpen.server.routes.heartbeats import BeatResult, BeatResults, HeartbeatBatch

BUILDER = worker.WorkerAnswer(
    key="builder-7",
    state=WorkerState.ACTIVE,
    instance_id="",
    domain="vm",
    epoch=1,
    token=2,
    lease_seconds=60.0,
    deadline=LATER,
    cleanup_at=None,
    heartbeat_at=ENDED,
    owes_reschedule=False,
    host="builder-7.example.org",
)
PAUSE = pause.PauseAnswer("large", "the new image does not boot", BEGAN, "ada")
LOOPS = {"debts": True, "sweep": True, "reconcile": True}
BEAT = HeartbeatRequest(key="builder-7", token=1, lease=60, running=(Binding(JOB, 1),))
GRANTED = HeartbeatAnswer(2, 1, 60.0, 18.5, (), WorkerState.ACTIVE, False)
STREAM = f'id: 1\nevent: gone\ndata: {{"kind":"instance","id":"{INSTANCE}"}}\n\n'

EXAMPLES = {
    "showStatus": Example(
        status.ServerStatus(
            counts={"small": {"running": 1}},
            pools=[status.PoolAnswer("small", 0, False, 0)],
            workers=[status.DomainAnswer("vm", 1, 0)],
            silent_workers=[],
            hold="",
            controls=[],
            waiting=[],
            failing_loops=[],
            loops=LOOPS,
            settings=status.SettingsAnswer(),
        )
    ),
    "listInstances": Example(instance.InstanceList([RUNNER], "")),
    "showInstance": Example(RUNNER),
    "listPauses": Example(pause.PauseList([PAUSE])),
    "pausePool": Example(
        pause.OperateAnswer(False, [pause.OperatorAction("pause", "class large", "no provision of it starts")], PAUSE),
        pause.PausePool(PAUSE.note, "large"),
    ),
    "resumePool": Example(
        pause.OperateAnswer(False, [pause.OperatorAction("resume", "class large", "provisions start again")]),
        pause.ResumePool("large"),
    ),
    "drainInstances": Example(
        pause.OperateAnswer(False, [pause.OperatorAction("end", INSTANCE, "it is free")]),
        pause.DrainInstances((INSTANCE,), note="its disk is full"),
    ),
    "rotatePool": Example(
        pause.OperateAnswer(
            True,
            [
                pause.OperatorAction(
                    "rotate", "class small", "8 free: replaced, 2 at a time, as others take their place"
                )
            ],
        ),
        pause.RotatePool("small", dry_run=True),
    ),
    "listWorkers": Example(worker.WorkerList([BUILDER], "")),
    "showWorker": Example(BUILDER),
    "stopWorker": Example(worker.WorkerStopped("builder-7", WorkerState.CLEANED_UP, [])),
    "recordHeartbeat": Example(GRANTED, BEAT),
    "recordHeartbeats": Example(
        BeatResults(
            [
                BeatResult(token=2, epoch=1, granted_lease_seconds=60.0, next_in_seconds=18.5, stop=[]),
                BeatResult(code=ErrorCode.CONFLICT, error="token-mismatch", token=2),
            ]
        ),
        HeartbeatBatch([BEAT, BEAT]),
    ),
    "streamEvents": Example(STREAM),
    "checkHealth": Example(status.AliveAnswer(True)),
    "checkReadiness": Example(
        status.ReadyAnswer(True, True, LOOPS), refusal=status.ReadyAnswer(False, False, LOOPS, {"reconcile": BEGAN})
    ),
    "openSession": Example(session.SessionAnswer("dashboard", Scope.OPERATE, LATER), session.LogIn("bpo_EXAMPLE")),
    "showSession": Example(session.SessionAnswer("dashboard", Scope.OPERATE, LATER)),
    "endSession": Example(session.SessionEnded(True)),
    "receiveWebhook": Example(Delivered(True), '{"action": "completed"}'),
}
