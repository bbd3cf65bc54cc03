#!/bin/bash
# Makes the archive of the version that the tests here upgrade from: pack.sh <commit>, in a clone that has the commit.
# It holds what the commands and agents of a pool need, and nothing of the simulator, the action or the demo. The same
# commit always gives the same archive.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
left_out=(sim action cli/demonstration engines/memory)
git archive --format=tar "$1" src/bullpen "${left_out[@]/#/:!src/bullpen/}" |
  xz -9e --threads=1 >"tests/scenario/upgrade/bullpen-$(git rev-parse --short=7 "$1").tar.xz"
