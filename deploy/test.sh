#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# This script installs missing packages, builds the tree and runs the tests that need no GPU. With --all it
# also runs the long tests, which include those of the container image and of the Debian packages. Its output
# ends with ctest's summary. None of these tests runs CUDA code, so this script compiles none; .ci/run does.
set -euo pipefail
excluded='^(gpu|long)$' once_more=false
case ${1-} in
  '') ;;
  --all) excluded='^gpu$' once_more=true ;;
  *) echo "usage: test.sh [--all]" >&2; exit 2 ;;
esac
unset CDPATH  # Otherwise cd would search these folders first.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/install_packages.sh build python test

echo "Configuring build/dev"
cmake --preset dev -DWARPFOLD_CUDA=OFF --log-level=WARNING
echo "Building build/dev"
cmake --build --preset dev
echo "Time of the build: $SECONDS s. Testing build/dev"
status=0
# Two more tests than there are cores run at once, because many tests wait for seconds (for a keepalive or a
# limit) without using a core. The preset is not used, because its filter of labels would replace this one.
ctest --test-dir build/dev --output-on-failure --label-exclude "$excluded" --parallel $(($(nproc) + 2)) \
  --output-log build/dev/tests.log || status=$?

# Succeeds if the failed tests may be retried (docs/adr/0119). They may not be retried after a crash, nor if
# one of them has the label core: those tests wait for nothing that a busy machine could delay.
may_be_chance() {
  if grep -q '\*\*\*Exception' build/dev/tests.log; then return 1; fi
  ! ctest --test-dir build/dev --show-only --label-regex '^core$' | sed -n 's/^ *Test *#[0-9]*: //p' |
    grep -xFf - <(cut -d : -f 2- build/dev/Testing/Temporary/LastTestsFailed.log)
}

((status == 0)) && exit
if ! $once_more || ! may_be_chance; then exit "$status"; fi
echo "These failed, and run once more, alone. Mend them, or what they have found, even if they pass:"
cut -d : -f 2- build/dev/Testing/Temporary/LastTestsFailed.log
ctest --test-dir build/dev --output-on-failure --rerun-failed
