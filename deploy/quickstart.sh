#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# This script shows the path from a bare machine to reduced arrays: it installs missing packages, builds the
# release, starts a server on a free port, reduces files and generated arrays with it, and stops it. The cuda
# backend takes most of the compilation time, so it is built only if nvidia-smi finds a GPU. Arguments are
# passed to cmake: -DWARPFOLD_CUDA=ON always builds that backend, -DWARPFOLD_CUDA=OFF never.
set -euo pipefail
unset CDPATH  # Otherwise cd would search these folders first.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly kBin=build/release/bin
readonly kReadyTimeoutS=60
work=$(mktemp -d)
server_pid=

stop_on_failure() {
  if [[ -n $server_pid ]]; then
    kill -KILL "$server_pid" 2>/dev/null || true
    echo "The server's log:" >&2
    cat "$work/server.err" >&2
  fi
  rm -rf "$work"
}
trap stop_on_failure EXIT

build() {
  deploy/install_packages.sh build
  # The kernels are compiled for the local GPU only, which is faster than compiling them for all GPUs. With
  # AUTO, cmake omits the cuda backend if it finds no CUDA compiler.
  local capability cuda=OFF architecture=90-real
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || true
  if [[ $capability =~ ^[0-9]+\.[0-9]+$ ]]; then
    echo "Found a GPU of compute capability $capability"
    cuda=AUTO
    architecture=${capability/./}-real
  else
    echo "Found no GPU: the CPU backend will be used"
  fi
  echo "Configuring build/release"
  cmake --preset release "-DWARPFOLD_CUDA=$cuda" "-DCMAKE_CUDA_ARCHITECTURES=$architecture" \
    --log-level=STATUS "$@" | grep -F 'cuda backend:'
  echo "Building build/release"
  cmake --build --preset release
}

# Starts the server and sets the variables `address` and `server_pid`.
start_server() {
  : >"$work/server.out"  # The loop below reads the file, perhaps before the server has been started.
  "$kBin/warpfold-server" --listen=127.0.0.1:0 --device=auto >"$work/server.out" 2>"$work/server.err" &
  server_pid=$!
  local ready='' deadline=$((SECONDS + kReadyTimeoutS))
  until ready=$(grep -m 1 '^READY ' "$work/server.out"); do
    kill -0 "$server_pid" 2>/dev/null || { echo "The server ended before it was ready" >&2; exit 1; }
    (( SECONDS < deadline )) || { echo "The server is not ready after $kReadyTimeoutS s" >&2; exit 1; }
    sleep 0.1
  done
  echo "$ready"
  address=${ready#*listen=}
  address=${address%% *}
}

# Makes a call with the given arguments, and shows the command, its result and how long it took.
reduce() {
  printf '\n$ warpfold reduce %s\n' "$*" >&2
  local TIMEFORMAT='(%R s)'
  time "$kBin/warpfold" reduce --target "$address" "$@"
}

# Writes the bytes of a file as a one-dimensional .npy array of uint32 (NumPy's format, version 1.0).
write_npy() {
  local input=$1 output=$2 count header
  count=$(($(stat -c %s "$input") / 4))
  # The format requires that the header's length is a multiple of 64 bytes. Here it is 128: 10 bytes before
  # the text, 117 of text and one newline.
  printf -v header '%-117s' "{'descr': '<u4', 'fortran_order': False, 'shape': ($count,), }"
  { printf '\x93NUMPY\x01\x00\x76\x00%s\n' "$header"; head -c $((count * 4)) "$input"; } >"$output"
}

expect() {
  [[ $1 == "$2" ]] || { echo "Expected '$2', got '$1'" >&2; exit 1; }
}

build "$@"
echo "Starting the server"
start_server

write_npy "$kBin/warpfold-server" "$work/executable.npy"
tail -c +129 "$work/executable.npy" >"$work/executable.raw"
reduce --op sum,min,max,mean,bit_xor "$work/executable.npy" | tee "$work/npy.txt"
reduce --op sum,min,max,mean,bit_xor --dtype uint32 "$work/executable.raw" | tee "$work/raw.txt"
expect "$(<"$work/raw.txt")" "$(<"$work/npy.txt")"

reduce --op sum,argmax --dtype int64 --iota 100000000 | tee "$work/iota.txt"
expect "$(grep '^sum ' "$work/iota.txt")" "sum 4999999950000000"
reduce --op mean,min,argmin --dtype float64 --random 20000000 --seed 1
reduce --op matrix_product --matrix 4x4 --dtype uint32 --modulus 4294967291 --random 100000 --seed 1

printf '\nStopping the server\n'
kill -TERM "$server_pid"
status=0
wait "$server_pid" || status=$?
server_pid=
expect "server exit code $status" "server exit code 0"
echo "Done. Executables: $kBin/warpfold-server and $kBin/warpfold"
