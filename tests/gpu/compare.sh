#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs two builds of warpfold-kernel-bench in turns on one GPU, so that both meet the same clocks and
# neighbours: what a change of the kernels costs or gains. A case that one of them lacks is left out.
#
#   tests/gpu/compare.sh OLD NEW OUT [FLAGS OF THE BENCHMARK, instead of the cases below]
#
# OUT gets their JSON lines, each with "build": old or new; standard output gets the ratio of new to old for
# each case. Takes about COMPARE_SECONDS (150): turns go on until then, but there are at least three.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
old=$1
new=$2
out=$3
shift 3
flags=("$@")
: >"$out"

# bench OLD|NEW EXECUTABLE FLAGS...
bench() {
  local build=$1 executable=$2
  shift 2
  "$executable" --budget_ms 12 --min_rounds 5 --max_rounds 21 "$@" 2>/dev/null |
    sed "s/^{/{\"build\":\"$build\",/" >>"$out"
}

both() {
  bench old "$old" "$@"
  bench new "$new" "$@"
}

readonly scalars=sum,min,argmin,mean,minmax,variance,describe,count_nonzero,l1_norm,first
readonly ordered=affine_compose,max_subarray_sum
turn() {
  if [ ${#flags[@]} -gt 0 ]; then
    both "${flags[@]}"
    return
  fi
  both --operators "$scalars,$ordered" --dtypes int32,int64,float32,float64 \
    --min_log2 18 --max_log2 30 --step_log2 4
  both --operators sum,min,variance,bit_xor,describe --dtypes int8,float16 \
    --min_log2 26 --max_log2 30 --step_log2 4
  both --operators matrix_product --dtypes uint32,float32 --matrix_dimensions 2,4,7,8,16,32 \
    --min_log2 22 --max_log2 30 --step_log2 8
  both --operators matrix_product --dtypes uint32 --matrix_dimensions 2,8 --modulus 998244353 \
    --min_log2 30 --max_log2 30
  both --operators sum --dtypes float32 --matrix_dimensions 2,32 --min_log2 30 --max_log2 30
  both --operators sum,min,argmin,variance,first --dtypes int32,float32 --from_host \
    --min_log2 10 --max_log2 20 --step_log2 2
}

turns=0
slowest=0
while ((turns < 3 || SECONDS + slowest < ${COMPARE_SECONDS:-150})); do
  begin=$SECONDS
  turn
  turns=$((turns + 1))
  ((SECONDS - begin > slowest)) && slowest=$((SECONDS - begin))
done
echo "$turns turns in $SECONDS s"
python3 -B "$here/compare_lines.py" "$out"
