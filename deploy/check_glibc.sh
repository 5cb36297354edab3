#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# This script fails if an executable needs a newer C library than VERSION, or a shared library that is not
# part of the C library. README.md promises that an executable built on Debian 12 runs with glibc 2.36 or
# newer.
#
#   deploy/check_glibc.sh VERSION EXECUTABLE ...
set -euo pipefail
version=$1
shift
failed=0

for executable in "$@"; do
  versions=$(objdump -T "$executable" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu)
  newest=${versions##*GLIBC_}
  needed=$(objdump -p "$executable" | awk '$1 == "NEEDED" { print $2 }')
  others=$(grep -vE '^(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)\.so\.' <<<"$needed" || true)
  echo "$executable needs glibc $newest"
  if [[ $(printf '%s\n' "$version" "$newest" | sort -V | tail -n 1) != "$version" ]]; then
    echo "$executable needs glibc $newest, newer than $version:" >&2
    objdump -T "$executable" | grep -F "GLIBC_$newest" >&2
    failed=1
  fi
  if [[ -n $others ]]; then
    echo "$executable needs libraries other than the C library's: $others" >&2
    failed=1
  fi
done
exit "$failed"
