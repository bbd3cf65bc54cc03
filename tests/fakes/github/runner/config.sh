#!/bin/bash
# Stands in for the script of this name of GitHub's runner, against the GitHub of our tests: see bin/listener.py.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
if [[ $(id -u) == 0 && -z ${RUNNER_ALLOW_RUNASROOT:-} ]]; then
  echo 'Must not run with sudo'
  exit 1
fi
source ./env.sh
if [[ ${1:-} != remove ]]; then set -- configure "$@"; fi
exec python3 -I -S bin/listener.py "$@"
