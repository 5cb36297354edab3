#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# coverage.sh BUILD OUT [CTEST_ARGUMENT...]: builds the tree in BUILD so that it counts which lines run, runs
# the tests (with these arguments, or else all that run on the CPU in this build), and writes into OUT:
# coverage.json, gcovr's report, and missed.txt, the lines that nothing runs. Prints the shares of the rooms.
#
# Sources of server/, client/ and kernels/ that run on the host are counted, without the Python package, which
# is built separately. A line of a template counts as run if any of its instances runs it. Processes that are
# killed, or end without running destructors (exit code 4), do not report what they ran. Needs gcovr.
set -euo pipefail
(($# >= 2)) || { sed -n '5,7s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$1" "$2"
build=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
shift 2
tests=(--label-regex '^(core|rpc|e2e|interop)$' --label-exclude '^gpu$')
(($# == 0)) || tests=("$@")

# Threads share counters. At -O1 lines are still distinguished, and the longest test takes five minutes.
cmake --preset dev -B "$build" -DWARPFOLD_CUDA=OFF --log-level=WARNING \
  '-DCMAKE_CXX_FLAGS=--coverage -fprofile-update=atomic' '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1'
cmake --build "$build" >"$out/build.log"
find "$build" -name '*.gcda' -delete
# Failures are reported: a test that fails has run fewer lines.
ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)" "${tests[@]}" >"$out/tests.log" ||
  tail -n 20 "$out/tests.log" >&2

gcovr --root . --object-directory "$build" --filter 'server/' --filter 'client/' --filter 'kernels/' \
  --exclude 'kernels/cuda/' --exclude 'client/python/' --exclude 'client/examples/' \
  --json "$out/coverage.json" >"$out/gcovr.log"
python3 "$(dirname "${BASH_SOURCE[0]}")/coverage_of_rooms.py" "$out/coverage.json" "$out/missed.txt"
