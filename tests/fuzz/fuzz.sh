#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# fuzz.sh BIN_DIR OUT_DIR SECONDS [JOBS]: runs the fuzzers of BIN_DIR (cmake --preset fuzz && cmake --build
# --preset fuzz) for this long each, at the same time, with JOBS processes each; starts from
# tests/fuzz/corpus. Writes into OUT_DIR, for each: the logs, what was found (crash-*, timeout-*, oom-*), and
# NAME.txt, the smallest corpus that reaches as much code, to be kept in tests/fuzz/corpus: one input a line,
# in base64. Prints a line for each, as JSON; "core_seconds" is the processor time that it had. The exit code
# is 1 if something was found.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(($# == 3 || $# == 4)) || { sed -n '5,11s/^# //p' "$0" >&2; exit 2; }
bin=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
seconds=$3 jobs=${4:-1}
TIMEFORMAT='core_seconds: %U %S'
readonly kMemoryMb=2048 kLongestInputS=10 kLongestInput=4096

# All jobs of one target share a corpus, which each reads again now and then.
start() {
  local name=$1 folder=$out/$1 job input kept=0
  mkdir -p "$folder/corpus" "$folder/found" "$folder/log"
  while read -r input; do
    kept=$((kept + 1))
    base64 -d <<<"$input" >"$folder/corpus/kept-$kept"
  done <"$here/corpus/$name.txt"
  for ((job = 0; job < jobs; ++job)); do
    {
      time "$bin/fuzz_$name" -max_total_time="$seconds" -rss_limit_mb=$kMemoryMb -timeout=$kLongestInputS \
        -max_len=$kLongestInput -use_value_profile=1 -reload=10 -print_final_stats=1 \
        -artifact_prefix="$folder/found/" "$folder/corpus"
    } >"$folder/log/$job" 2>&1 &
  done
}

# The smallest corpus, and the line.
finish() {
  local name=$1 folder=$out/$1 input runs core_seconds found
  mkdir -p "$folder/least"
  "$bin/fuzz_$name" -merge=1 -use_counters=0 -max_len=$kLongestInput "$folder/least" "$folder/corpus" \
    >"$folder/log/merge" 2>&1 || true
  for input in "$folder/least"/*; do
    base64 -w 0 "$input"
    echo
  done | sort >"$out/$name.txt"
  runs=$(awk '/number_of_executed_units/ { sum += $2 } END { print sum + 0 }' "$folder"/log/*)
  core_seconds=$(awk '/^core_seconds:/ { sum += $2 + $3 } END { printf "%.0f", sum }' "$folder"/log/*)
  found=$(find "$folder/found" -type f | wc -l)
  printf '{"fuzzer":"%s","seconds":%s,"jobs":%s,"core_seconds":%s,"runs":%s,"corpus":%s,"found":%s}\n' \
    "$name" "$seconds" "$jobs" "$core_seconds" "$runs" "$(wc -l <"$out/$name.txt")" "$found"
  ((found == 0))
}

names=()
for program in "$bin"/fuzz_*; do names+=("${program##*/fuzz_}"); done
for name in "${names[@]}"; do start "$name"; done
wait
finishing=()
for name in "${names[@]}"; do
  finish "$name" &
  finishing+=($!)
done
status=0
for one in "${finishing[@]}"; do wait "$one" || status=1; done
exit $status
