#!/bin/bash
# Stands in for the script of this name of GitHub's runner. As there: the helper is copied again for each start, 2 means
# once more, and the exit code says nothing unless signals are to be passed on.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
status=2
if [[ -n ${RUNNER_MANUALLY_TRAP_SIG:-} ]]; then
  set -m # the helper gets a process group, which the signal reaches whole
  trap 'kill -INT -- -"$helper"; is_signalled=1' INT TERM
fi
while ((status == 2)); do
  cp -f "$here/run-helper.sh.template" "$here/run-helper.sh"
  if [[ -n ${RUNNER_MANUALLY_TRAP_SIG:-} ]]; then
    "$here/run-helper.sh" "$@" &
    helper=$!
    wait "$helper"
    status=$?
    if [[ -n ${is_signalled:-} ]]; then
      wait "$helper"
      status=$?
    fi
  else
    "$here/run-helper.sh" "$@"
    status=$?
  fi
  if ((status == 2)); then echo 'Restarting runner...'; fi
done
echo 'Exiting runner...'
trap - INT TERM
if [[ -z ${RUNNER_MANUALLY_TRAP_SIG:-} ]]; then status=0; fi
exit "$status"
