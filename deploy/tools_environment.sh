#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# This script creates a virtual environment in FOLDER with the tools that the tests of manifests and images
# run. It downloads them from PyPI, and can be run again on the same folder.
set -euo pipefail
if (( $# != 1 )); then
  echo "usage: tools_environment.sh FOLDER" >&2
  exit 2
fi
folder=$(realpath -m "$1")
unset CDPATH  # Otherwise cd would search these folders first.
cd "$(dirname "${BASH_SOURCE[0]}")/../tests/deploy"

# venv installs pip last, so its presence shows that the environment is complete.
[[ -x $folder/bin/pip ]] || /usr/bin/python3 -m venv "$folder"
pip=("$folder/bin/pip" --quiet --disable-pip-version-check install)
"${pip[@]}" --requirement requirements.txt
"${pip[@]}" --require-hashes --no-deps --requirement kubectl.txt
