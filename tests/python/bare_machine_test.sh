#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# bare_machine_test.sh BASES SERVER: runs README.md's two lines for Python on a bare machine (the archive
# base.tar in BASES, made if it is not there), then its first call, to a server outside. Reports which
# packages the machine was given. Exit code 77: skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_folder=$(cd "$here/../.." && pwd)
# shellcheck source=/dev/null
. "$here/../container/stand_in.sh"
readonly kReadyTimeoutS=60

((EUID == 0)) || skip "needs root"
type -P debootstrap >/dev/null || skip "needs debootstrap (deploy/install_packages.sh build test)"
# All mounts and processes are gone when this script ends, however it ends.
if [[ -z ${WARPFOLD_UNSHARED-} ]]; then
  unshare --mount --pid --fork --kill-child true 2>/dev/null || skip "may not make namespaces"
  WARPFOLD_UNSHARED=1 exec unshare --mount --pid --fork --kill-child --mount-proc "${BASH_SOURCE[0]}" "$@"
fi

mkdir -p "$1"
bases=$(cd "$1" && pwd)
server=$2
root=$(mktemp --directory)
trap 'umount --lazy "$root/proc" "$root/ccache" 2>/dev/null || true; rm -rf "$root"' EXIT

# With what pip and apt need here to reach their packages, and nothing else of this machine's environment.
inside() {
  local kept
  mapfile -t kept < <(env | grep -iE '^(pip_|https?_proxy=|no_proxy=)' || true)
  env --ignore-environment PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "${kept[@]}" \
    PIP_CERT=/etc/pip.crt CCACHE_DIR=/ccache CCACHE_READONLY=1 CCACHE_TEMPDIR=/tmp \
    chroot "$root" bash -ec "cd /warpfold && $1"
}

# shellcheck disable=SC2016 # dpkg-query's variable, not the shell's
packages() { chroot "$root" dpkg-query --show --showformat '${Package}\n' | sort; }

make_machine() {
  tar -C "$root" -xf "$bases/base.tar"
  mount -t proc proc "$root/proc"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir "$root/warpfold" "$root/ccache"
  # pip trusts the same authorities as here; the machine's own list is rewritten when its package is
  # installed.
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/pip.crt"
  # A compiler's cache is not a package: with this machine's cache, the test takes half the time. The bare
  # machine can write or delete nothing in it.
  if type -P ccache >/dev/null && [[ -d $(ccache --get-config cache_dir) ]]; then
    mount -o bind,ro "$(ccache --get-config cache_dir)" "$root/ccache"
  fi
  tar -C "$source_folder" --exclude=./build --exclude=./.git --exclude='_native*.so' -cf - . |
    tar -C "$root/warpfold" -xf -
}

start_server() {
  local log=$root/server.log deadline=$((SECONDS + kReadyTimeoutS))
  "$server" --listen=127.0.0.1:0 --device=cpu >"$log" 2>&1 &
  until grep -q '^READY ' "$log"; do
    ((SECONDS < deadline)) || { cat "$log" >&2; fail "no server"; }
    sleep 0.1
  done
  address=$(sed -n 's/^READY listen=\([^ ]*\).*/\1/p' "$log")
}

# The block of README.md that names this test.
install_as_readme_says() {
  local lines
  lines=$(sed -n '/run by: python_bare_machine/,/^```$/p' "$source_folder/README.md" | sed '/^```/d;/^<!--/d')
  [[ $lines == *"pip install ./client/python"* ]] || fail "README.md does not install the package: $lines"
  packages >"$bases/before.txt"
  inside "$lines" >"$bases/python.log" 2>&1 || { tail -n 50 "$bases/python.log" >&2; fail "$lines"; }
  packages >"$bases/after.txt"
  echo "$(comm -13 "$bases/before.txt" "$bases/after.txt" | wc -l) Debian packages more than the bare machine"
}

call_as_readme_says() {
  local said
  sed -n '/^import numpy, warpfold$/,/^```$/p' "$source_folder/README.md" | sed '/^```/d' |
    sed "s/127.0.0.1:50051/$address/" >"$root/warpfold/call.py"
  said=$(inside "venv/bin/python call.py")
  [[ $said == 499999500000 ]] || fail "the first call says '$said'"
}

make_base "$bases"
make_machine
start_server
install_as_readme_says
call_as_readme_says
echo "The package installs on a bare machine, and calls"
