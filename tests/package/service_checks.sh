#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs as root on a machine that systemd has booted with warpfold-server: the service responds, is confined,
# comes back when it is killed or its device fails, but not when a flag is wrong. Prints "passed" at the end;
# powers the machine off, whatever happened.
set -euo pipefail
# The connection on which systemctl asks may be cut by the end that it requested: systemctl then complains,
# and must not do so after "passed".
trap 'systemctl poweroff --no-block >/dev/null 2>&1 || true' EXIT
readonly kTarget=unix:/run/warpfold/grpc
readonly kDropIn=/run/systemd/system/warpfold-server.service.d

fail() { echo "FAILED: $*"; systemctl status warpfold-server || true; journalctl -n 30 || true; exit 1; }
show() { systemctl show warpfold-server --property "$1" --value; }

# wait_until COMMAND...
wait_until() {
  local deadline=$((SECONDS + 60))
  until "$@"; do
    ((SECONDS < deadline)) || fail "not within a minute: $*"
    sleep 0.2
  done
}
serves() { warpfold health --target "$kTarget" >/dev/null 2>&1; }
restarted() { (($(show NRestarts) >= $1)); }
failed() { [[ $(show ActiveState) == failed ]]; }

# Makes the unit run a shell's command instead of the server.
run_instead() {
  mkdir -p "$kDropIn"
  printf '[Service]\nExecStart=\nExecStart=/bin/sh -c "%s"\nRestartSec=100ms\n' "$1" >"$kDropIn/test.conf"
  systemctl daemon-reload
  systemctl reset-failed warpfold-server
}

# The unit counts as started when the server says so, and this one is started after it.
serves || fail "it is started and does not serve"
[[ $(warpfold reduce --target "$kTarget" --op sum --iota 1000) == "sum 499500" ]] || fail "the sum"
# Its user and group may connect, and nobody else; the memory socket checks who connects.
[[ $(stat -c '%U %a' /run/warpfold/grpc) == "warpfold 770" ]] || fail "$(stat /run/warpfold/grpc)"
[[ $(stat -c '%U %a' /run/warpfold/memory) == "warpfold 666" ]] || fail "$(stat /run/warpfold/memory)"

pid=$(show MainPID)
status=$(<"/proc/$pid/status")
[[ $status == *$'\nNoNewPrivs:\t1\n'* && $status == *$'\nSeccomp:\t2\n'* ]] || fail "$status"
[[ $status == *$'\nCapBnd:\t0000000000000000\n'* ]] || fail "$status"
# Its file system is read-only, except for its own folder.
! nsenter --target "$pid" --mount touch /usr/test 2>/dev/null || fail "it may write to /usr"

systemctl reload warpfold-server
[[ $(show MainPID) == "$pid" ]] || fail "a reload ends it"
serves || fail "it is reloaded and does not serve"
systemctl restart warpfold-server
serves || fail "it is restarted and does not serve"
pid=$(show MainPID)

kill -KILL "$pid"
wait_until restarted 1
wait_until serves

systemctl stop warpfold-server
[[ $(show Result) == success && $(show ExecMainStatus) == 0 ]] || fail "it did not drain"

run_instead "exit 4"
systemctl start warpfold-server || true
wait_until restarted 2
systemctl stop warpfold-server
run_instead "exit 2"
systemctl start warpfold-server || true
wait_until failed
[[ $(show NRestarts) == 0 ]] || fail "a wrong flag restarts the service"
echo passed
