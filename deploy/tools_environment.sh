#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes FOLDER a virtual environment with the tools that the tests of manifests and images call, from PyPI.
# May be run again.
set -euo pipefail
if (( $# != 1 )); then
  echo "usage: tools_environment.sh FOLDER" >&2
  exit 2
fi
folder=$(realpath -m "$1")
unset CDPATH  # cd would look there first
cd "$(dirname "${BASH_SOURCE[0]}")/../tests/deploy"

# venv installs pip last, so its presence shows that the environment is complete.
[[ -x $folder/bin/pip ]] || /usr/bin/python3 -m venv "$folder"
pip=("$folder/bin/pip" --quiet --disable-pip-version-check install)
"${pip[@]}" --requirement requirements.txt
"${pip[@]}" --require-hashes --no-deps --requirement kubectl.txt
