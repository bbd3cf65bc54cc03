"""The scripts that GitHub's runner executes before and after each job, with `bash -e` and as the user of the jobs.

They need bash and coreutils, as the runner does itself; our Python may lie where that user cannot reach it. A question
is one line into a pipe, the answer a file: a pipe without a reader does not take the line, so whoever asks a dead agent
learns it in seconds. Nothing has to be trusted that a job could have written. The question goes to its writer by the
environment, never as an argument: all users of a machine can see arguments, and one could ask first in its name.

A hook that fails stops no job: steps with `if: always()` run all the same. So the script that refuses a job ends the
worker that would run its steps, which is its parent, and never returns to it. The listener above them notices, tells
GitHub that the job has failed, and waits for the next one. A job that is cancelled while it waits for our word would
come to those steps as well, and ends in the same way.
"""

from __future__ import annotations

QUESTION_WITHIN = 2  # seconds to pass the question on
ANSWER_WITHIN = 30  # seconds until there must be an answer: the agent tells the control plane first
LOGGED_WITHIN = 2  # seconds for the worker to send the reason; one that is cancelled waits for more than 7

ASK = """
here={here}
id=$$-$RANDOM$RANDOM
question=$(printf '%s\\t' "$id" {event} "$GITHUB_RUN_ID" "$GITHUB_RUN_ATTEMPT" "$GITHUB_REPOSITORY" "$RUNNER_NAME")
ask() {{
  [[ -p $here/ask ]] &&
    QUESTION=$question$GITHUB_JOB timeout {patience} bash -c 'printf "%s\\n" "$QUESTION" >"$1"' ask "$here/ask"
}}
"""
STARTED = """#!/bin/bash
# Asks the agent of this machine whether the job may run here. If it may not, it says so in the job's log and ends the
# job's worker, so that no step runs: not even one that always does.
refuse() {{
  trap '' INT TERM HUP
  echo "::error title=Bullpen::$1"
  sleep {logged}
  # Only while it is our parent: once it has died, its number may be somebody else's.
  while read -r _ _ _ parent _ </proc/$$/stat && [[ $parent == "$PPID" ]]; do kill -KILL $PPID || true; sleep 0.05; done
  exit 1
}}
trap 'refuse "The job was cancelled before it was admitted."' INT TERM HUP
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
    text = {"started": STARTED, "completed": COMPLETED}[event]
    return text.format(ask=ask, ticks=ANSWER_WITHIN * 20, logged=LOGGED_WITHIN)
