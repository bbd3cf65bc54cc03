# Finds a Python that is new enough and becomes it, so that a signal to the step reaches it. Nothing is installed here.
set -eu
exec 2>&1 # one stream: the log keeps the order

trap 'exit 130' INT TERM # a shell that waits for a child would forget the signal
# Until Python hears them signals are held back, where env can do that: it would answer with a traceback.
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
echo "::error title=Bullpen::this runner has no Python 3.11 or newer. Put actions/setup-python before this step."
exit 2
