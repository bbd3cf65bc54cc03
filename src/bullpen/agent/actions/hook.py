"""The scripts that GitHub's runner executes before and after each job, with `bash -e` and as the user of the jobs.

They need bash and coreutils, as the runner does itself; our Python may lie where that user cannot reach it. A question
is one line into a pipe, the answer a file: a pipe without a reader does not take the line, so whoever asks a dead agent
learns it in seconds. Nothing has to be trusted that a job could have written.
"""

from __future__ import annotations

QUESTION_WITHIN = 2  # seconds to pass the question on
ANSWER_WITHIN = 30  # seconds until there must be an answer: the agent tells the control plane first

ASK = """
here={here}
id=$$-$RANDOM$RANDOM
question=$(printf '%s\\t' "$id" {event} "$GITHUB_RUN_ID" "$GITHUB_RUN_ATTEMPT" "$GITHUB_REPOSITORY" "$RUNNER_NAME")
ask() {{
  [[ -p $here/ask ]] && timeout {patience} bash -c 'printf "%s\\n" "$1" >"$2"' ask "$question$GITHUB_JOB" "$here/ask"
}}
"""
STARTED = """#!/bin/bash
# Asks the agent of this machine whether the job may run here, and says so in the job's log if it may not.
refuse() {{
  echo "::error title=Bullpen::$1"
  exit 1
}}
{ask}
ask 2>/dev/null || refuse 'The agent of this machine is gone: the job cannot be admitted. Run the job again.'
for ((tick = 0; tick < {ticks}; tick++)); do
  if [[ -e $here/answers/$id ]]; then
    answer=$(<"$here/answers/$id")
    if [[ -z $answer ]]; then exit 0; fi
    refuse "$answer"
  fi
  sleep 0.05
done
refuse 'The agent of this machine did not answer: the job cannot be admitted. Run the job again.'
"""
COMPLETED = """#!/bin/bash
# Notes that the last step is over. GitHub does not know it yet, so nothing ends here, and nothing can fail here.
{ask}
ask 2>/dev/null || true
"""


def script(event: str, here: str) -> str:
    """For `started` or `completed`; `here` is the directory of the agent's ears, quoted for a shell."""
    ask = ASK.format(here=here, event=event, patience=QUESTION_WITHIN).strip()
    return {"started": STARTED, "completed": COMPLETED}[event].format(ask=ask, ticks=ANSWER_WITHIN * 20)
