"""Files of projects and jobs, and what Bullpen's agents ask."""

from typing import Any

from bullpen.model.instance import State as InstanceState
from bullpen.model.signal import Kind as SignalKind
from bullpen.schema import (
    agent,
    requests,
    sources,
)
from bullpen.server.openapi.examples.subjects import INSTANCE, JOB, RUN, SUBMITTED, Example

SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
WORKER = f"{INSTANCE}/0a0b0c0d"
HOLDER: dict[str, Any] = {"worker_instance_key": WORKER, "epoch": 1, "fence": 1}

EXAMPLES = {
    "showSourceLimits": Example(sources.SourceLimits(524288000)),
    "listMissingBlocks": Example(sources.MissingBlocks([SHA256]), sources.AskMissing((SHA256,))),
    "sendPack": Example(sources.PieceStored(524288, False), "BYTES"),
    "sendManifest": Example(sources.PieceStored(1337, True), "BYTES"),
    "listArtifacts": Example(
        sources.ArtifactList(JOB, 1, 4711, [sources.ArtifactFile("dist/report.xml", 4000, False)])
    ),
    "readArtifacts": Example("BYTES"),
    "fetchSource": Example("BYTES"),
    "sendArtifacts": Example(agent.LogWritten(4711), "BYTES"),
    "showAgentRecord": Example(agent.AgentRecord(True, "3", InstanceState.RUNNING, RUN, "0f1e2d3c4b5a6978")),
    "reportSignal": Example(
        agent.SignalStored(True), requests.ReportSignal(SignalKind.REG_OK, RUN, "0f1e2d3c4b5a6978", 2)
    ),
    "takeJob": Example(agent.TakenJob(SUBMITTED), requests.TakeJob(WORKER, "0f1e2d3c4b5a6978")),
    "bindJob": Example(SUBMITTED, requests.BindJob(**HOLDER)),
    "checkAssignment": Example(agent.AssignmentAnswer(agent.AssignmentStanding.HOLDS)),
    "giveBackJob": Example(SUBMITTED, requests.GiveBackJob(**HOLDER, why="the machine is about to go")),
    "finishJob": Example(agent.FinishedJob(True, SUBMITTED), requests.FinishJob(**HOLDER, exit_code=0)),
    "appendJobLog": Example(agent.LogWritten(19), "12 passed in 0.34s\n"),
    "registerRunner": Example(agent.RegistrationAnswer(True), requests.RegisterRunner(RUN, "0f1e2d3c4b5a6978")),
    "deregisterRunner": Example(agent.RegistrationAnswer(False)),
    "proveInstance": Example(
        agent.AgentToken("bpa_EXAMPLE"),
        requests.ProveInstance("AWS4-HMAC-SHA256 Credential=EXAMPLE", "20261116T160134Z", "EXAMPLE"),
    ),
}
