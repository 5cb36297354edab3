#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# The GPU suite, for a machine that has a GPU and the CUDA toolkit but need not have gRPC, a compiler or a
# network: it uses the static executables of the gpu preset and the tree, and writes logs.
#
#   tests/gpu/run.sh BIN_DIR OUT_DIR [STEP ...]
#
# STEP: contract, sanitizers, memcheck_e2e, e2e, way_in, first_calls, bench; all of them by default.
#
# Build with `cmake --preset gpu && cmake --build --preset gpu`, copy build/gpu/bin and the tree over, run.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
out=$2
shift 2
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(contract sanitizers memcheck_e2e e2e way_in first_calls bench)
mkdir -p "$out"
failed=0

note() { printf '== %s\n' "$*"; }

# Runs a step's command, keeps its output in $out/NAME.log, and reports how it went.
step() {
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$out/$name.log" 2>&1; then
    note "$name: passed in $((SECONDS - start)) s"
  else
    note "$name: FAILED ($?) in $((SECONDS - start)) s"
    tail -n 30 "$out/$name.log"
    failed=1
  fi
  tail -n 3 "$out/$name.log"
}

has() {
  local s
  for s in "${steps[@]}"; do [ "$s" = "$1" ] && return 0; done
  return 1
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/device.txt"
export WARPFOLD_TEST_DEVICE=cuda:0
if has contract; then
  step contract "$bin/kernels_contract_test" --gtest_brief=1
  step device_reducer "$bin/device_reducer_test" --gtest_brief=1
  step process_memory "$bin/process_memory_test" --gtest_brief=1
  step gather "$bin/gather_test" --gtest_brief=1
  step grids "$bin/grids_test" --gtest_brief=1
  step device_segment_reducer "$bin/device_segment_reducer_test" --gtest_brief=1
  step several_gpus "$bin/several_gpus_test" --gtest_brief=1
  step large_arrays "$bin/large_arrays_test" --gtest_brief=1
  step textbook "$bin/textbook_test" --gtest_brief=1
  step textbook_device "$bin/textbook_device_test" --gtest_brief=1
  step cuts "$bin/server_cuts_test" --gtest_brief=1
  step server-segments "$bin/server_segments_test" --gtest_brief=1
fi
# Like step, in as many processes as there are cores: sanitizers wait for the host.
sharded() {
  local name=$1 start=$SECONDS shards pids=() i failures=0
  shift
  shards=$(nproc)
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$@" >"$out/$name.$i.log" 2>&1 &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    wait "${pids[i]}" || { failures=$((failures + 1)); tail -n 30 "$out/$name.$i.log"; }
  done
  note "$name: $failures of $shards shards failed, in $((SECONDS - start)) s" | tee "$out/$name.log"
  cat "$out/$name".*.log | grep -E '^\[ +(PASSED|FAILED|SKIPPED) +\]|ERROR SUMMARY|RACECHECK SUMMARY' |
    sort | uniq -c >>"$out/$name.log"
  rm "$out/$name".[0-9]*.log
  cat "$out/$name.log"
  (( failures == 0 )) || failed=1
}

if has sanitizers; then
  # Every production kernel and every algorithm of the textbook with every operator and type that it serves.
  # (racecheck sees only races in shared memory; the bits of the results cover global memory.)
  for tool in memcheck racecheck initcheck synccheck; do
    export WARPFOLD_TEST_SCALE=tiny
    [ "$tool" = memcheck ] && export WARPFOLD_TEST_SCALE=small
    check=(compute-sanitizer --tool "$tool" --error-exitcode 9)
    contract='*BitsAtTheBoundaries*:*SegmentsTest*:*OfManyTest.*'
    # Kernels over segments read the last vector whole. If an array ends inside it, in memory to which nothing
    # was written before, initcheck reports the bytes after the array, on which no value depends.
    [ "$tool" = initcheck ] && contract+='-SegmentsOfManyTest.AMillionTinyOnes:SegmentsOfManyTest.FromMemory'
    sharded "$tool-kernels_contract_test" "${check[@]}" "$bin/kernels_contract_test" --gtest_brief=1 \
      "--gtest_filter=$contract"
    sharded "$tool-device_segment_reducer_test" "${check[@]}" "$bin/device_segment_reducer_test" \
      --gtest_brief=1
    # A shard without a test makes no call of CUDA, which the tool takes for an error.
    step "$tool-gather_test" "${check[@]}" "$bin/gather_test" --gtest_brief=1
    sharded "$tool-grids_test" "${check[@]}" "$bin/grids_test" --gtest_brief=1
    sharded "$tool-textbook_test" "${check[@]}" "$bin/textbook_test" --gtest_brief=1
    export WARPFOLD_TEST_SCALE=small
    sharded "$tool-device_reducer_test" "${check[@]}" "$bin/device_reducer_test" --gtest_brief=1
    sharded "$tool-textbook_device_test" "${check[@]}" "$bin/textbook_device_test" --gtest_brief=1
  done
  unset WARPFOLD_TEST_SCALE
  step memcheck-cuts compute-sanitizer --tool memcheck --error-exitcode 9 \
    "$bin/server_cuts_test" --gtest_brief=1
fi
if has memcheck_e2e; then
  export CHECKED_SERVER=$bin/warpfold-server CHECKED_SERVER_LOG=$out/memcheck-server-%p.log
  export WARPFOLD_SERVER=$here/checked_server.sh WARPFOLD_CLI=$bin/warpfold WARPFOLD_DEVICE=cuda:0
  step memcheck-e2e-arrays python3 -B "$here/../e2e/arrays_test.py"
  cat "$out"/memcheck-server-*.log >>"$out/memcheck-e2e-arrays.log"
  rm "$out"/memcheck-server-*.log
fi
if has e2e; then
  export WARPFOLD_SERVER=$bin/warpfold-server WARPFOLD_CLI=$bin/warpfold WARPFOLD_DEVICE=cuda:0
  for suite in admin server_process refusals client_process reduce algorithms real_data arrays segments \
    bench exit_time; do
    step "e2e-$suite" python3 -B "$here/../e2e/${suite}_test.py" -v
  done
  WARPFOLD_DEVICE=cuda:all step e2e-several_devices python3 -B "$here/../e2e/several_devices_test.py" -v
  export WARPFOLD_BREAKING_SERVER=$bin/breaking_server
  step broken_device python3 -B "$here/broken_device_test.py"
  # Skips itself if the Python package, in the form of deploy/python_wheel.sh's wheel, cannot be imported.
  step python_cuda python3 -B "$here/python_cuda_test.py" -v
fi
if has way_in; then
  for device in cuda:0 cpu; do
    step "way_in-${device%%:*}" python3 -B "$here/../benchmarks/way_in.py" --bin "$bin" --device "$device" \
      --output "$out/way_in-${device%%:*}.jsonl" --commit "${WARPFOLD_COMMIT:-unknown}"
  done
  cat "$out"/way_in-*.jsonl >"$out/way_in.jsonl"
fi
if has first_calls; then
  # Each in its own process, which has loaded nothing: as a server's first calls would be without a warm-up,
  # and as they are.
  step first_calls "$bin/first_calls" cuda:0
  step first_calls-warm "$bin/first_calls" cuda:0 --warm
  cat "$out"/first_calls.log "$out"/first_calls-warm.log >"$out/first_calls.jsonl"
fi
if has bench; then
  step kernel_bench "$bin/warpfold-kernel-bench" --date "$(date +%F)" --commit "${WARPFOLD_COMMIT:-unknown}" \
    --driver "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
  grep '^{' "$out/kernel_bench.log" >"$out/kernel_bench.jsonl"
  step textbook_bench "$bin/warpfold-textbook-bench" 1024 "${WARPFOLD_COMMIT:-unknown}" "$(date +%F)" \
    "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
  grep '^{' "$out/textbook_bench.log" >"$out/textbook_bench.jsonl"
fi
exit $failed
