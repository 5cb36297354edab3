#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# package_test.sh BASES BUILD: makes the Debian packages of a release build in BUILD, installs them on a bare
# machine (the archive base.tar in BASES, made if it is not there), runs their contents as the service's user,
# upgrades them, and purges them: then only the bare machine and a locked user remain. Then compiles a program
# with the development package, and boots the machine with the service. Exit code 77: skipped entirely, or
# only the boot was.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_folder=$(cd "$here/../.." && pwd)
# shellcheck source=/dev/null
. "$here/../container/stand_in.sh"
readonly kReadyTimeoutS=60
readonly kWanted=etc/systemd/system/multi-user.target.wants/warpfold-server.service  # exists if it is enabled

((EUID == 0)) || skip "needs root"
for tool in debootstrap dpkg-shlibdeps ip unshare; do
  type -P "$tool" >/dev/null || skip "needs $tool (deploy/install_packages.sh build test)"
done
# All mounts and processes are gone when this script ends, however it ends.
if [[ -z ${WARPFOLD_UNSHARED-} ]]; then
  unshare --mount --pid --fork --kill-child true 2>/dev/null || skip "may not make namespaces"
  WARPFOLD_UNSHARED=1 exec unshare --mount --pid --fork --kill-child --mount-proc "${BASH_SOURCE[0]}" "$@"
fi

mkdir -p "$1" "$2"
bases=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
root=$(mktemp --directory)
trap 'umount --lazy "$root/proc" 2>/dev/null || true; rm -rf "$root"' EXIT

# Shows what a step printed only if it failed.
quietly() {
  local log=$build/step.log
  "$@" >"$log" 2>&1 || { cat "$log" >&2; fail "$*"; }
}

make_packages() {
  echo "Making the packages"
  quietly cmake --preset release -S "$source_folder" -B "$build" -DWARPFOLD_CUDA=OFF
  quietly cmake --build "$build"
  rm -rf "$build/packages"
  quietly cpack --config "$build/CPackConfig.cmake"
  (cd "$build/packages" && du -k -- *.deb)
  for package in warpfold-server warpfold libwarpfold-dev; do
    compgen -G "$build/packages/${package}_0*.deb" >/dev/null || fail "no package $package"
  done
  local depends
  depends=$(dpkg-deb --field "$build"/packages/warpfold-server_*.deb Depends)
  # All libraries except the C library are linked statically.
  [[ $depends =~ ^'libc6 (>= '[0-9.]+'), passwd'$ || $depends =~ ^'passwd, libc6 (>= '[0-9.]+')'$ ]] ||
    fail "warpfold-server depends on $depends"
}

inside() { chroot "$root" "$@"; }

# Every file of the machine, except for what any installation of a package changes.
files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./tmp -o -path ./packages -o -path ./var/log -o \
    -path ./var/cache -o -path ./var/lib/apt -o -path ./var/lib/dpkg \) -prune -o -print | sort)
}

make_machine() {
  tar -C "$root" -xf "$bases/base.tar"
  mount -t proc proc "$root/proc"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir "$root/packages"
  cp "$build"/packages/*.deb "$root/packages"
  files >"$build/before.txt"
}

install_packages() {
  echo "Installing the server and the command line"
  quietly inside sh -c 'dpkg --install /packages/warpfold-server_*.deb /packages/warpfold_*.deb'
  [[ $(inside getent passwd warpfold) == *:/usr/sbin/nologin ]] || fail "no user warpfold"
  [[ -L $root/$kWanted ]] || fail "not enabled"
  # Instead of systemd, which makes it as the unit says.
  inside install --directory --owner=warpfold --group=warpfold --mode=0755 /run/warpfold
}

# As the unit's user.
run_service() {
  echo "Running the service"
  local log=$build/server.log status=0 deadline=$((SECONDS + kReadyTimeoutS)) server sum
  chroot --userspec=warpfold:warpfold "$root" /usr/bin/warpfold-server --listen=unix:/run/warpfold/grpc \
    --device=cpu >"$log" 2>&1 &
  server=$!
  until grep -q '^READY ' "$log"; do
    if ! kill -0 "$server" 2>/dev/null || ((SECONDS >= deadline)); then
      cat "$log" >&2
      fail "not ready"
    fi
    sleep 0.1
  done
  sum=$(inside warpfold reduce --target unix:/run/warpfold/grpc --op sum --iota 1000000)
  [[ $sum == "sum 499999500000" ]] || fail "the sum is '$sum'"
  inside warpfold health --target unix:/run/warpfold/grpc
  kill -TERM "$server"
  wait "$server" || status=$?
  ((status == 0)) || fail "the server ended with $status"
}

# A later version replaces this one: the flags, the user and what systemd starts stay.
upgrade() {
  echo "Upgrading"
  local flags='WARPFOLD_FLAGS=--listen=unix:/run/warpfold/grpc' package before
  echo "$flags" >"$root/etc/default/warpfold-server"
  before=$(inside getent passwd warpfold)
  rm -rf "$build/later"
  mkdir "$build/later"
  for package in warpfold-server warpfold; do
    dpkg-deb --raw-extract "$build/packages/${package}"_0*.deb "$build/later/$package"
    sed -i 's/^Version: .*/&+later/' "$build/later/$package/DEBIAN/control"
    quietly dpkg-deb --root-owner-group --build "$build/later/$package" "$root/packages/later-$package.deb"
  done
  quietly inside sh -c 'dpkg --install /packages/later-*.deb'
  [[ $(inside dpkg-query --show warpfold-server) == *+later ]] || fail "not upgraded"
  [[ $(<"$root/etc/default/warpfold-server") == "$flags" ]] || fail "the flags are gone"
  [[ $(inside getent passwd warpfold) == "$before" ]] || fail "another user"
  [[ -L $root/$kWanted ]] || fail "no longer enabled"
  run_service
  rm "$root/etc/default/warpfold-server"
}

# The machine boots, checks its service (service_checks.sh) and powers itself off.
boot() {
  local nspawn=(systemd-nspawn --quiet --register=no --keep-unit --private-network "--directory=$root")
  umount "$root/proc"
  if ! "${nspawn[@]}" true >"$build/boot.log" 2>&1; then
    skip "all but the boot passed: systemd-nspawn is not there, or may not run"
  fi
  echo "Booting with the service"
  quietly inside sh -c "DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends \
    dbus systemd-sysv && dpkg --install /packages/warpfold-server_*.deb /packages/warpfold_*.deb"
  echo 'WARPFOLD_FLAGS=--listen=unix:/run/warpfold/grpc --memory_socket=/run/warpfold/memory --device=cpu' \
    >"$root/etc/default/warpfold-server"
  install "$here/service_checks.sh" "$root/root"
  cat >"$root/etc/systemd/system/service-checks.service" <<'UNIT'
[Unit]
After=warpfold-server.service
[Service]
Type=oneshot
ExecStart=/root/service_checks.sh
StandardOutput=file:/root/result
StandardError=file:/root/result
UNIT
  ln -s ../service-checks.service "$root/etc/systemd/system/multi-user.target.wants/"
  if ! timeout 300 "${nspawn[@]}" --boot >"$build/boot.log" 2>&1; then
    tail -n 50 "$build/boot.log" >&2
    fail "the machine did not power itself off"
  fi
  [[ $(tail -n 1 "$root/root/result") == passed ]] || { cat "$root/root/result" >&2; fail "the service"; }
}

# With the packages on which the package itself says it depends.
use_development_package() {
  echo "Compiling with the development package"
  quietly inside apt-get -qq update
  quietly inside sh -c "DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends \
    g++ pkg-config /packages/libwarpfold-dev_*.deb"
  cp "$source_folder/client/examples/sum.cc" "$root/tmp"
  # shellcheck disable=SC2016 # expanded inside
  quietly inside sh -c 'g++ -std=c++20 /tmp/sum.cc -o /tmp/sum $(pkg-config --cflags --libs warpfold)'
  # Nobody listens: the program runs, and reports that.
  ! inside /tmp/sum 127.0.0.1:1 2>"$build/sum.log" || fail "a sum without a server"
  grep -q UNAVAILABLE "$build/sum.log" || fail "$(<"$build/sum.log")"
}

purge() {
  echo "Purging"
  quietly inside dpkg --purge warpfold-server warpfold
  # Files may still belong to the user and group: so their numbers stay taken, and the account locked.
  [[ $(inside getent passwd warpfold) == *:/usr/sbin/nologin ]] || fail "the user is gone"
  inside getent group warpfold >/dev/null || fail "the group is gone"
  [[ $(inside passwd --status warpfold) == "warpfold L "* ]] || fail "the user may log in"
  files >"$build/after.txt"
  # useradd keeps copies of the files that it changes.
  comm -13 "$build/before.txt" "$build/after.txt" |
    grep -vE '^\./etc/(passwd|group|shadow|gshadow|sub[ug]id)-?$' >"$build/left.txt" || true
  [[ ! -s $build/left.txt ]] || fail "left behind: $(<"$build/left.txt")"
}

make_base "$bases"
make_packages
make_machine
install_packages
run_service
upgrade
purge
use_development_package
boot
echo "The packages install, run, and leave nothing behind"
