#!/bin/bash
# As the script of this name of GitHub's runner: whatever config.sh is asked, the path and some variables of its caller
# are written down beside it.
echo "$PATH" >.path
if [[ ! -f .env ]]; then touch .env; fi
if [[ -n ${LANG:-} ]] && ! grep -q 'LANG=' .env; then echo "LANG=$LANG" >>.env; fi
