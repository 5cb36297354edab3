#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# What limits each production kernel, by Nsight Compute: one launch over 1 GiB for each operator and type.
#
#   tests/gpu/profile.sh BIN_DIR > profile.csv
#   tests/gpu/profile_lines.py COMMIT < profile.csv > profile.jsonl
#
# The columns are ncu's metrics; tests/gpu/results/kernels-measured.md interprets them.
set -euo pipefail
bin=$(cd "$1" && pwd)

metrics=gpu__time_duration.sum
metrics+=,dram__bytes_read.sum.pct_of_peak_sustained_elapsed
metrics+=,sm__inst_issued.avg.pct_of_peak_sustained_elapsed
metrics+=,smsp__inst_executed.sum
metrics+=,sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_elapsed
metrics+=,sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed
metrics+=,sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_elapsed
metrics+=,sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed
metrics+=,l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed
metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active
metrics+=,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
metrics+=,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio
metrics+=,launch__registers_per_thread,launch__grid_size,launch__block_size

profile() {
  ncu --csv --print-units base --metrics "$metrics" --kernel-name-base demangled \
    --kernel-name 'regex:warpfold::kernels::cuda' "$bin/warpfold-kernel-bench" --once --min_log2 30 \
    --max_log2 30 "$@" | grep '^"' || true
}

readonly every=int32,float32,int64,float64
profile --operators sum,min,product,argmin,mean,minmax,variance,describe,l2_norm,max_abs --dtypes "$every"
profile --operators count_nonzero,first,max_subarray_sum,affine_compose --dtypes "$every"
profile --operators exact_sum,logsumexp --dtypes float32,float64
profile --operators sum,min --dtypes int8,int16,float16,bfloat16
profile --operators product,variance,describe --dtypes int8,int16,float16
profile --operators sum,matrix_product --dtypes float32,uint32 --matrix_dimensions 2,4,8,16,32
profile --operators matrix_product --dtypes uint32 --matrix_dimensions 2,4,8,16,32 --modulus 998244353
