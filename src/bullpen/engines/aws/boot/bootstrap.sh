#!/bin/bash
# Boots an instance: finds Python, fetches the agent from the table, checks it, starts it. Whatever fails on the way is
# reported in the table and ends the machine. With BULLPEN_ROOT everything happens below that directory, without users,
# firewall and services, unless BULLPEN_STUBS says that those commands are stubs.
set -Eeuo pipefail
umask 077

root=${BULLPEN_ROOT:-}
code=$root/opt/bullpen
agent=$code/agent-@VERSION@.pyz
state=$root/var/lib/bullpen
log=$root/var/log/bullpen-boot.log
units=$root/etc/systemd/system
# Gone when the machine restarts; empty until its agent runs.
life=$root/run/bullpen
python=

owns_machine() { [[ -z $root || -n ${BULLPEN_STUBS:-} ]]; }

# Whatever fails in here: what follows must still happen, the end of the machine above all.
leave() {
  local status=$?
  set +e
  trap - EXIT ERR
  if ((status == 0)); then return; fi
  echo "the boot failed with status $status"
  if [[ -n $python && -s $code/boot.pyz ]]; then
    "$python" -I -S "$code/boot.pyz" report "$log" || echo 'and could not be reported'
  fi
  # To the console of the machine: there is nowhere else.
  tail -n 50 "$log" >&3
  if owns_machine; then shutdown -h now; fi
  exit "$status"
}

exec 3>&1
trap leave EXIT
trap 'echo "line $LINENO: $BASH_COMMAND: failed with status $?"' ERR
# A boot that hangs ends as well.
if owns_machine; then shutdown -h +20; fi
mkdir -p "$code" "$state" "${log%/*}"
exec >>"$log" 2>&1

# User data runs once. A machine that crashes or is restarted has no agent in its next life: that one ends at once.
if owns_machine; then
  mkdir -p "${life%/*}" "$units/multi-user.target.wants"
  : >"$life"
  cat >"$units/bullpen-again.service" <<UNIT
[Unit]
Description=End of a machine that starts again
ConditionPathExists=!$life

[Service]
Type=oneshot
ExecStart=$(command -v shutdown) -h now
UNIT
  # As systemctl enable does, which may hang.
  ln -sf ../bullpen-again.service "$units/multi-user.target.wants/"
fi

# Another package manager may be at work just after the start, and the network may still be coming up.
persistently() {
  local attempt
  for attempt in {1..12}; do
    if "$@"; then return; fi
    echo "attempt $attempt failed: $*"
    sleep 5
  done
  return 1
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=30 "$@"; }
apt_python() { apt update && { apt install python3.11 || apt install python3; }; }
apt_iptables() { apt update && apt install iptables; }

find_python() {
  for python in python3 python3.14 python3.13 python3.12 python3.11; do
    python=$(command -v "$python") || continue
    if "$python" -I -S -c 'import bz2, sqlite3, ssl, sys; sys.exit(sys.version_info < (3, 11))'; then return; fi
  done
  python=
  return 1
}

install_python() {
  if command -v dnf; then
    persistently dnf install -y python3.11
  elif command -v apt-get; then
    persistently apt_python
  else
    echo 'no Python from 3.11 on, and neither dnf nor apt-get to install it with'
    return 1
  fi
  find_python
}

install_iptables() {
  if command -v dnf; then persistently dnf install -y iptables-nft; else persistently apt_iptables; fi
}

# Ahead of all other rules: what the runner starts must not speak with the machine's role.
refuse() {
  local rule=(OUTPUT -d "$2" -m owner --uid-owner runner -j REJECT)
  "$1" -w 30 -C "${rule[@]}" 2>/dev/null || "$1" -w 30 -I "${rule[@]}"
}

find_python || install_python
echo "uses $python"

unpack='import base64, bz2, sys; sys.stdout.buffer.write(bz2.decompress(base64.b64decode(sys.stdin.read())))'
"$python" -I -S -c "$unpack" >"$code/boot.pyz" <<'BOOT'
@BOOT@
BOOT
mkdir -p "$state"/{work,home,tmp}

if ! owns_machine; then
  "$python" -I -S "$code/boot.pyz" fetch @SHA256@ "$agent" "$state/agent.json" ''
  exec "$python" -I -S "$agent" "$state/agent.json" >>"$state/agent.log" 2>&1 3>&-
fi

id runner || useradd --system --user-group --no-create-home --home-dir "$state/home" --shell /bin/bash runner
# What these daemons start comes when they like: also while a cleaning looks for processes, which would not find it.
# An image that brings its own allow list keeps it. Packages bring deny lists, which are left alone.
for allowed in "$root"/etc/{cron,at}.allow; do
  [[ -e $allowed ]] || (umask 022 && echo root >"$allowed")
done
command -v iptables || install_iptables
refuse iptables 169.254.169.254
# A kernel without IPv6 has no table to put a rule into, and no way to that address.
if [[ -e $root/proc/net/if_inet6 ]] && command -v ip6tables; then refuse ip6tables fd00:ec2::254; fi

"$python" -I -S "$code/boot.pyz" fetch @SHA256@ "$agent" "$state/agent.json" runner
cat >"$units/bullpen-agent.service" <<UNIT
[Unit]
Description=Bullpen agent

[Service]
Type=exec
ExecStart=$python -I -S $agent $state/agent.json
Restart=no
# The agent writes to the file; its last words go on to the journal and the console, which outlives the machine.
StandardError=append:$state/agent.log
StandardOutput=journal+console
ExecStopPost=-$(command -v tail) -n 50 $state/agent.log
# Not while it boots: that the agent cannot be started is to be reported first.
ExecStopPost=$BASH -c "[[ ! -s $life ]] || exec $(command -v shutdown) -h now"
# A job that eats all memory is ended without the agent.
OOMPolicy=continue
TasksMax=infinity
UNIT
systemctl daemon-reload
systemctl start bullpen-agent.service
echo 'the agent runs' >"$life"
# From here on the agent ends the machine. If it has ended already, nothing would.
systemctl is-active bullpen-agent.service
shutdown -c
