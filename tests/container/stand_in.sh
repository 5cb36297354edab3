# shellcheck shell=bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# To be sourced by tests that need a bare machine: make_base FOLDER writes FOLDER/base.tar, the minimal root
# file system of this machine's distribution, from this machine's own package sources. It is kept for the next
# run.

skip() { echo "Skipped: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }

make_base() {
  [[ -s $1/base.tar ]] && return
  local ID VERSION_CODENAME mirror components=main
  # shellcheck source=/dev/null
  . /etc/os-release
  [[ $ID == ubuntu ]] && components=main,universe
  # shellcheck disable=SC2016 # apt-get's variables, not the shell's
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk -v release="$VERSION_CODENAME" '$2 == release && !found { print $1; found = 1 }')
  [[ -n $mirror ]] || skip "apt has no source for $VERSION_CODENAME"
  echo "Making a stand-in for a bare machine"
  rm -rf "$1/base"
  if ! debootstrap --variant=minbase --components="$components" "$VERSION_CODENAME" "$1/base" "$mirror" \
    >"$1/base.log"; then
    tail "$1/base.log" >&2
    fail "debootstrap"
  fi
  tar -C "$1/base" -cf "$1/base.tar.part" .
  rm -rf "$1/base"
  mv "$1/base.tar.part" "$1/base.tar"
}
