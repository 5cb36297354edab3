#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# What a server on a GPU tells its observers, during a mix of calls and after it:
#
#   tests/gpu/metrics.sh BIN_DIR OUT_DIR [DEVICE]
#
# Uses warpfold-server and warpfold of BIN_DIR and Python's standard library. Writes to OUT_DIR the pages
# /metrics, /statusz, /healthz and /readyz before, during and after the mix and while the server drains
# (begin-metrics.txt, ...), the server's log, what each part of the mix printed, and summary.txt. Fails if a
# page does not say what it should, which metrics_check.py knows. DEVICE is cuda:0 unless given.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(($# >= 2)) || { echo "usage: metrics.sh BIN_DIR OUT_DIR [DEVICE]" >&2; exit 2; }
bin=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
device=${3:-cuda:0}
readonly kReadyTimeoutS=120
folder=$(mktemp -d)
: >"$folder/ready"
server_pid=
trap '[[ -z $server_pid ]] || kill -KILL "$server_pid" 2>/dev/null; rm -rf "$folder"' EXIT

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >"$out/device.txt"
fi
"$bin/warpfold-server" --listen=127.0.0.1:0 --admin_listen=127.0.0.1:0 --device="$device" \
  --resident_bytes=$((64 << 20)) --memory_socket="$folder/memory" --max_concurrent_reductions=64 \
  --idle_timeout_seconds=2 --drain_seconds=20 --log_format=json >"$folder/ready" 2>"$out/log.jsonl" &
server_pid=$!
deadline=$((SECONDS + kReadyTimeoutS))
until grep -q '^READY ' "$folder/ready"; do
  if ! kill -0 "$server_pid" 2>/dev/null || ((SECONDS >= deadline)); then
    cat "$out/log.jsonl" >&2
    exit 1
  fi
  sleep 0.1
done
cat "$folder/ready"
target=$(sed -E 's/.* listen=(\S+).*/\1/' "$folder/ready")
admin=$(sed -E 's/.* admin=(\S+).*/\1/' "$folder/ready")

pages() { python3 -B "$here/metrics_check.py" pages "$admin" "$out/$1"; }
call() { "$bin/warpfold" "$1" --target "$target" "${@:2}"; }
bench() { call bench --warm_up 0.2 --rounds 1 --json "$@"; }
# A call that must be rejected for this reason.
refused() {
  local reason=$1 status=0
  shift
  call "$@" >>"$out/refused.txt" 2>&1 || status=$?
  ((status == 1)) || { echo "not refused ($reason): $*, exit $status" >&2; exit 1; }
}

pages begin
: >"$out/refused.txt"
bench --streams 4 --bytes $((256 << 20)) --duration 8 >"$out/bench-streams.json" &
streams_pid=$!
bench --method array --callers 4 --duration 8 >"$out/bench-small.json" &
small_pid=$!
sleep 2
# A call that is there when the pages are read.
{ head -c $((4 << 20)) /dev/zero; sleep 1.5; } | call reduce --op sum --dtype int32 - >"$out/under-load.txt" &
slow_pid=$!
sleep 1
pages load
wait "$slow_pid"
wait "$streams_pid"
wait "$small_pid"
bench --op sum,mean,minmax --dtype float64 --bytes $((64 << 20)) --duration 2 >"$out/bench-operators.json"
bench --segment_length 1024 --bytes $((64 << 20)) --duration 2 >"$out/bench-segments.json"
bench --source memory --memory_socket "$folder/memory" --bytes $((64 << 20)) --duration 2 \
  >"$out/bench-memory.json"
call reduce --op matrix_product --matrix 4x4 --dtype uint32 --random 100000 >"$out/product.txt"
head -c $((1 << 20)) /dev/zero >"$folder/zeros"
call put --dtype float32 "$folder/zeros" >"$out/put.txt"
call reduce --op sum --array "$(awk '/^token/ { print $2 }' "$out/put.txt")" >"$out/kept.txt"
refused UNSUPPORTED_TYPE reduce --op matrix_product --iota 1000
refused OVERFLOW reduce --op product --random 1000 --dtype int32
refused EMPTY_ARRAY reduce --op max --iota 0
refused UNKNOWN_MEMORY reduce --op sum --array 00000000000000000000000000000000
# First an array larger than one client may keep; then a client that falls silent.
head -c $((80 << 20)) /dev/zero >"$folder/large"
refused ARRAY_TOO_LARGE put --dtype float32 "$folder/large"
{ head -c $((4 << 20)) /dev/zero; sleep 4; } | refused IDLE reduce --op sum --dtype int32 -
pages after

# A call in progress keeps the server draining.
zeros() { head -c $((4 << 20)) /dev/zero; sleep 1.5; }
{ zeros; zeros; } | call reduce --op sum --dtype int32 - >"$out/drained.txt" &
last_pid=$!
sleep 0.5
kill -TERM "$server_pid"
sleep 0.3
pages drain
wait "$last_pid"
status=0
wait "$server_pid" || status=$?
server_pid=
((status == 0)) || { echo "the server's exit code is $status" >&2; exit 1; }
python3 -B "$here/metrics_check.py" check "$out" "$device" | tee "$out/summary.txt"
