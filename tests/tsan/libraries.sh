#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds Debian's abseil, Protocol Buffers and gRPC with ThreadSanitizer, from their source
# packages, into FOLDER/prefix. A build of the preset `tsan` that uses them sees their locks and atomics, so
# that the tests with gRPC can run, too (CONTRIBUTING.md). What these libraries use (OpenSSL, c-ares, RE2,
# zlib) remains the distribution's.
#
#   tests/tsan/libraries.sh FOLDER      # 12 minutes on two cores; needs a GB of disk, dpkg-dev and ninja
set -euo pipefail

[[ $# == 1 ]] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
cd "$1"
prefix=$PWD/prefix

# The packages' sources, of the release that is installed: apt knows them only if it is told to.
mkdir -p apt/parts apt/lists/partial
sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources > apt/parts/sources.sources
apt_options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$PWD/apt/parts"
             -o "Dir::State::lists=$PWD/apt/lists")
apt-get "${apt_options[@]}" update
for package in abseil protobuf grpc; do
  [[ -d $package ]] && continue
  mkdir -p "download/$package"
  (cd "download/$package" && apt-get "${apt_options[@]}" source --download-only "$package")
  dpkg-source --no-check --extract "download/$package/${package}"_*.dsc "$package.part"
  mv "$package.part" "$package"
done

# -w: what these libraries' code is warned of is not for us to mend.
sanitized="-fsanitize=thread -O1 -g1 -fno-omit-frame-pointer -w"
build() {  # the package, and options of CMake
  cmake -S "$1" -B "build/$1" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_C_FLAGS="$sanitized" -DCMAKE_CXX_FLAGS="$sanitized" -DCMAKE_EXE_LINKER_FLAGS=-fsanitize=thread \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_PREFIX_PATH="$prefix" \
    "${@:2}"
  cmake --build "build/$1"
  cmake --install "build/$1" > "build/$1/install.log"
}

# Protocol Buffers' compiler and gRPC's plugin are not run by many threads.
export TSAN_OPTIONS=report_bugs=0
build abseil -DABSL_PROPAGATE_CXX_STD=ON -DBUILD_TESTING=OFF
build protobuf -Dprotobuf_BUILD_TESTS=OFF
grpc_options=(-DgRPC_BACKWARDS_COMPATIBILITY_MODE=OFF)
for library in ABSL CARES PROTOBUF RE2 SSL ZLIB; do grpc_options+=("-DgRPC_${library}_PROVIDER=package"); done
for language in CSHARP NODE OBJECTIVE_C PHP PYTHON RUBY; do
  grpc_options+=("-DgRPC_BUILD_GRPC_${language}_PLUGIN=OFF")
done
build grpc "${grpc_options[@]}"
