# Finds a Python that is new enough and replaces this shell with it, so that signals to the step reach it. Installs nothing.
set -eu
exec 2>&1 # one stream keeps the order of the log

trap 'exit 130' INT TERM # otherwise a shell that waits for a child ignores the signal
# Where env can do that, signals are blocked until Python handles them: otherwise it would print a traceback.
hold=
if env --block-signal=INT,TERM true 2>/dev/null; then hold="env --block-signal=INT,TERM"; fi

for python in python3 python3.14 python3.13 python3.12 python3.11 \
  "${RUNNER_TOOL_CACHE:-/opt/hostedtoolcache}"/Python/3.1[1-9]*/*/bin/python3; do
  # -I: neither the checkout nor the job's environment decides what is imported.
  if "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    # -P: not from the working directory, which is the workflow's checkout.
    PYTHONPATH="$GITHUB_ACTION_PATH/src" exec $hold "$python" -P -u -m bullpen.action
  fi
done
echo "::error title=Bullpen::this runner has no Python 3.11 or newer. Add actions/setup-python before this step."
exit 2
