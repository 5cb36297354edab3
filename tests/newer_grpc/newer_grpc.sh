#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# newer_grpc.sh FOLDER [CTEST_ARGUMENT...]: builds the tree against the newest gRPC that Debian has (1.83 on
# 2026-11-22), and runs its tests without those of CUDA, Python, packages and images. That gRPC is in Debian's
# suite "experimental": FOLDER/root is a root file system of "unstable" with the packages that gRPC needs from
# there, made from scratch if it is missing. FOLDER/build is the build. Nothing outside FOLDER is changed.
# Arguments after it go to ctest, instead of the tests' labels.
#
# Needs root, debootstrap and a Debian whose own mirror also has these suites. Exit code 77: skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_folder=$(cd "$here/../.." && pwd)
# shellcheck source=/dev/null
. "$here/../container/stand_in.sh"
readonly kKeys=/usr/share/keyrings/debian-archive-keyring.gpg
# Programs of the group "test" in deploy/install_packages.sh that the executables' own tests call: other tools
# are not in that suite under the names of Debian 12.
readonly kTestPackages=(libgmock-dev libgtest-dev python3-grpcio python3-h2 python3-numpy python3-protobuf
  openssl strace)

(($# >= 1)) || fail "usage: newer_grpc.sh FOLDER [CTEST_ARGUMENT...]"
((EUID == 0)) || skip "needs root"
for tool in debootstrap unshare; do
  type -P "$tool" >/dev/null || skip "needs $tool (deploy/install_packages.sh test)"
done
[[ -s $kKeys ]] || skip "needs the keys of Debian's archive (debian-archive-keyring)"
# shellcheck disable=SC2016 # apt-get's variable, not the shell's
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
  awk '!/security/ && !found { print; found = 1 }')
[[ -n $mirror ]] || skip "apt has no source of Debian's"
unshare --mount --pid --fork true 2>/dev/null || skip "may not make namespaces"
mkdir -p "$1/build" "$1/ccache"
folder=$(cd "$1" && pwd)
root=$folder/root
shift
tests=(--label-regex '^(core|rpc|e2e)$' --label-exclude '^(gpu|interop)$')
(($# == 0)) || tests=("$@")

# A mirror may be days behind, and unstable has no fixed version. The abseil is unstable's, with which that
# gRPC was built: experimental has one that is newer still.
make_root() {
  echo "Making a root of Debian unstable"
  rm -rf "$root" "$root.part"
  debootstrap --variant=minbase --keyring="$kKeys" sid "$root.part" "$mirror" >"$folder/root.log" ||
    { tail "$folder/root.log" >&2; fail "debootstrap"; }
  printf 'deb %s %s main\n' "$mirror" sid "$mirror" experimental >"$root.part/etc/apt/sources.list"
  echo 'Acquire::Check-Valid-Until "false";' >"$root.part/etc/apt/apt.conf.d/10mirror"
  printf 'Package: %s\nPin: release a=experimental\nPin-Priority: 900\n' \
    'libgrpc* libprotobuf* libprotoc* protobuf-compiler* libupb*' \
    >"$root.part/etc/apt/preferences.d/grpc"
  mkdir -p "$root.part/src" "$root.part/build"
  mv "$root.part" "$root"
}

# Runs a command in the root, with the tree and the build in it, in separate namespaces.
in_root() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1 source=$2 folder=$3
    shift 3
    mount --bind -o ro "$source" "$root/src"
    mount --bind "$folder/build" "$root/build"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    mkdir "$root/tmp/ccache"
    mount --bind "$folder/ccache" "$root/tmp/ccache"
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/tmp/ccache "$@"' bash "$root" "$source_folder" "$folder" "$@"
}

timed() {
  local begin=$SECONDS
  "${@:2}"
  echo "Time of $1: $((SECONDS - begin)) s"
}

[[ -d $root ]] || timed "the root" make_root
timed "the packages" in_root bash -euc '
  /src/deploy/install_packages.sh build
  apt-get install -qq --no-install-recommends "$@" </dev/null >/dev/null
  dpkg-query --show libgrpc++-dev libprotobuf-dev libabsl-dev g++' bash "${kTestPackages[@]}"
# What newer libraries call deprecated has no other name in those of Debian 12; and GCC 16 considers possible
# what earlier code rules out: leaves without elements, spans of 2^64 - 1 bytes.
timed "the build" in_root bash -euc '
  cd /src
  cmake --preset dev -B /build -DWARPFOLD_CUDA=OFF --log-level=WARNING -Wno-dev \
    "-DCMAKE_CXX_FLAGS=-Wno-error=deprecated-declarations -Wno-error=maybe-uninitialized \
-Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=array-bounds"
  cmake --build /build -- -k 0'
timed "the tests" in_root ctest --test-dir /build --output-on-failure --parallel "$(nproc)" "${tests[@]}"
