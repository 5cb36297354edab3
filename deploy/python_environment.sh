#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes FOLDER a virtual environment with the Python package, built from this tree, and with the modules that
# its tests and its benchmark import. Downloads what is missing from PyPI. May be run again.
set -euo pipefail
if (( $# != 1 )); then
  echo "usage: python_environment.sh FOLDER" >&2
  exit 2
fi
folder=$(realpath -m "$1")
unset CDPATH  # cd would look there first
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# venv installs pip last, so its presence shows that the environment is complete.
[[ -x $folder/bin/pip ]] || /usr/bin/python3 -m venv "$folder"
pip=("$folder/bin/pip" --quiet --disable-pip-version-check install)
"${pip[@]}" --requirement tests/python/requirements.txt
"${pip[@]}" --no-deps --force-reinstall ./client/python
