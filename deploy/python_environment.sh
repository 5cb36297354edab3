#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# This script creates a virtual environment in FOLDER with the Python package, which is built from this tree,
# and with the modules that its tests and its benchmark import. It downloads missing packages from PyPI, and
# can be run again on the same folder.
set -euo pipefail
if (( $# != 1 )); then
  echo "usage: python_environment.sh FOLDER" >&2
  exit 2
fi
folder=$(realpath -m "$1")
unset CDPATH  # Otherwise cd would search these folders first.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# venv installs pip last, so its presence shows that the environment is complete.
[[ -x $folder/bin/pip ]] || /usr/bin/python3 -m venv "$folder"
pip=("$folder/bin/pip" --quiet --disable-pip-version-check install)
"${pip[@]}" --requirement tests/python/requirements.txt
"${pip[@]}" --no-deps --force-reinstall ./client/python
