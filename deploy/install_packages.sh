#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# This script installs those packages of the named groups (build, python, test, languages) that are missing.
# Debian 12 and Ubuntu 24.04 have all of them under these names. The script needs root or sudo only if a
# package is missing.
set -euo pipefail

# These are the compiler, the tools and the libraries of both executables. The executables are linked
# statically, so the libraries that gRPC itself uses are needed as well: the -dev packages contain the static
# archives. Python generates the manual pages, and dpkg-dev determines the dependencies of Debian packages.
build=(
  ca-certificates ccache cmake g++ git ninja-build pkg-config
  protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libc-ares-dev libgrpc++-dev libgrpc-dev libprotobuf-dev libprotoc-dev
  libre2-dev libssl-dev zlib1g-dev
  dpkg-dev libboost-context-dev libboost-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev python3
)
# These are needed to build the Python package; pip gets the rest from PyPI.
python=(python3-dev python3-venv)
# The first line has GoogleTest and the modules that the Python tests import. The others have the programs
# that are run by the tests of the code's format, of scripts, proxies, manual pages, the systemd unit and the
# container image.
test=(
  libgmock-dev libgtest-dev python3-grpcio python3-h2 python3-numpy python3-protobuf python3-venv
  buildah clang-format-14 debootstrap haproxy iproute2 mandoc nginx-light openssl prometheus shellcheck
  strace systemd systemd-container zsh
)

# These compile and run the examples of docs/calling.md in other languages. They take 770 MiB, and only those
# tests need them.
languages=(
  golang-github-golang-protobuf-1-5-dev golang-go golang-google-grpc-dev golang-google-protobuf-dev
  protoc-gen-go protoc-gen-go-grpc
  libgeronimo-annotation-1.3-spec-java libgrpc-java libguava-java libnetty-java libperfmark-java
  libprotobuf-java openjdk-17-jdk-headless protobuf-compiler-grpc-java-plugin
)

wanted=()
for group in "$@"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    python) wanted+=("${python[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    languages) wanted+=("${languages[@]}") ;;
    *) echo "install_packages.sh: no group '$group' (build, python, test, languages)" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  # dpkg-query prints one word for each architecture of the package, without a space between them.
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed* ]] || missing+=("$package")
done
(( ${#missing[@]} )) || exit 0

as_root=()
if (( EUID != 0 )); then
  if ! command -v sudo >/dev/null; then
    echo "Missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o Dpkg::Use-Pty=0)
if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "apt-get failed: see above" >&2
  exit 1
fi
