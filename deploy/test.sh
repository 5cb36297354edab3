#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds, and runs the tests that need no GPU; with --all also the long ones, among
# them those of the container image and of the Debian packages. Ends with ctest's summary.
# No test of these runs CUDA code, so none is compiled here; .ci/run does that.
set -euo pipefail
excluded='^(gpu|long)$'
more=()
case ${1-} in
  '') ;;
  # The second run of a test that failed has the last word (docs/adr/0119).
  --all) excluded='^gpu$' more=(--repeat until-pass:2) ;;
  *) echo "usage: test.sh [--all]" >&2; exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy/install_packages.sh build python test

echo "Configuring build/dev"
cmake --preset dev -DWARPFOLD_CUDA=OFF --log-level=WARNING
echo "Building build/dev"
cmake --build --preset dev
echo "Time of the build: $SECONDS s. Testing build/dev"
# One more than there are cores: several tests wait for seconds (for a keepalive, for a limit) and use none.
# Not by the preset: its filter of labels takes the place of this one.
ctest --test-dir build/dev --output-on-failure --label-exclude "$excluded" --parallel $(($(nproc) + 1)) \
  "${more[@]}"
