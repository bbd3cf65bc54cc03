#!/bin/bash
# Stands in for GitHub's runner where many must run on a few processors: it listens half a second after its start, and
# needs a few milliseconds of a processor for that. It speaks the words of tests/fakes/github/listening.py, serves one
# job, with the hooks that the agent names, and ends.
set -u
STARTS_IN=0.5 # seconds
config=$(base64 -d <<<"$ACTIONS_RUNNER_INPUT_JITCONFIG")
unset ACTIONS_RUNNER_INPUT_JITCONFIG

field() { # name, JSON: the text or number of this name
  [[ $2 =~ \"$1\":\ \"?([^\",}]*) ]] && printf -v "$1" %s "${BASH_REMATCH[1]}"
}

say() { # word, more fields: sets status and body
  local sent="{\"id\": $id, \"secret\": \"$secret\"$2}" line length=0
  exec 3<>"/dev/tcp/$host/$port" || exit 1
  printf 'POST /_runner/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
    "$1" "$host" "${#sent}" "$sent" >&3
  body=''
  IFS=' ' read -r -u 3 _ status _
  while IFS= read -r -u 3 line && [[ $line != $'\r' ]]; do
    if [[ ${line,,} == content-length:* ]]; then length=${line//[^0-9]/}; fi
  done
  if ((length)); then IFS= read -r -u 3 -N "$length" body; fi
  exec 3>&-
}

tell() { printf '%(%Y-%m-%d %H:%M:%SZ)T: %s\n' -1 "$1"; }

id='' secret='' status='' body=''
field id "$config" && field secret "$config"
[[ $config =~ \"url\":\ \"http://([^:/]+):([0-9]+) ]] && host=${BASH_REMATCH[1]} port=${BASH_REMATCH[2]}
sleep "$STARTS_IN"
say session ', "version": "2.336.0"'
if ((status != 200)); then exit 1; fi
tell 'Listening for Jobs'
say next ', "wait": 50'
while ((status == 204)); do say next ', "wait": 50'; done
if ((status != 200)); then exit 0; fi # GitHub has removed the registration

job=$body
for name in GITHUB_ACTOR GITHUB_EVENT_NAME GITHUB_JOB GITHUB_REF GITHUB_REPOSITORY GITHUB_REPOSITORY_ID \
  GITHUB_RUN_ATTEMPT GITHUB_RUN_ID RUNNER_NAME; do
  field "$name" "$job"
  export "${name?}"
done
[[ $job =~ \"job\":\ \{\"id\":\ ([0-9]+) ]] && number=${BASH_REMATCH[1]}
script=''
field script "$job"
tell "Running job: $GITHUB_JOB"
say started ", \"job\": $number"
conclusion=failure
if bash -e "$ACTIONS_RUNNER_HOOK_JOB_STARTED" && bash -e -c "$script"; then conclusion=success; fi
bash -e "$ACTIONS_RUNNER_HOOK_JOB_COMPLETED" || conclusion=failure
say finish ", \"job\": $number, \"conclusion\": \"$conclusion\", \"log\": \"\", \"outputs\": {}"
tell "Job $GITHUB_JOB completed with result: Succeeded"
exit 0
