#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# check_image.sh BASE DIGEST TOOLS BUILDAH...: checks the image localhost/warpfold, made on top of the archive
# BASE with the digest DIGEST, in the store on which the command BUILDAH... works: its configuration, its
# files, its bill of materials, that its server starts, responds and drains when it may do hardly anything,
# and that it cuts floods. TOOLS is the environment of deploy/tools_environment.sh; without it the bill is not
# validated. Changes the network namespace in which it runs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=/dev/null
. "$here/stand_in.sh"
base=$1
digest=$2
tools=$3
buildah=("${@:4}")
readonly kReadyTimeoutS=60
# In addition to the base; 150 MB is the goal with the cuda backend included.
readonly kMaxBytes=150000000
readonly kShare=usr/local/share/warpfold
readonly kSbom=$kShare/sbom.spdx.json
runner_pid=

expect() { [[ $1 == "$2" ]] || fail "expected '$2', got '$1'"; }
inspect() { "${buildah[@]}" inspect --type image --format "$1" localhost/warpfold; }
config() { inspect "{{.Docker.Config.$1}}"; }
label() { inspect "{{index .Docker.Config.Labels \"$1\"}}"; }
trap '[[ -z $runner_pid ]] || kill -KILL "$runner_pid"' EXIT

check_configuration() {
  expect "$(config User)" 65532:65532
  expect "$(config Entrypoint)" "[/usr/local/bin/warpfold-server --listen=0.0.0.0:50051]"
  # Neither this nor the entry point is a shell command.
  expect "$(config Healthcheck.Test)" "[CMD /usr/local/bin/warpfold health]"
  expect "$(label org.opencontainers.image.licenses)" Apache-2.0
  expect "$(label org.opencontainers.image.revision)" 0123abcd
  expect "$(label org.opencontainers.image.base.digest)" "$digest"
  [[ $(label org.opencontainers.image.version) =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "no version"
}

# The image adds the two executables and their bill to its base, and they load nothing but the C library.
check_files() {
  local root=$1 before after added libraries bytes
  before=$(tar -tf "$base" | sed 's|/$||' | sort)
  after=$(cd "$root" && find . -not -path './run/*' -not -type d | sort)
  added=$(comm -13 <(echo "$before") <(echo "$after"))
  expect "$added" "./usr/local/bin/warpfold
./usr/local/bin/warpfold-server
./$kShare/LICENSE
./$kShare/notices.txt.gz
./$kSbom"
  libraries=$(chroot "$root" ldd /usr/local/bin/warpfold-server /usr/local/bin/warpfold)
  ! grep -qE 'not found|libstdc|libgrpc|libprotobuf|libabsl|libssl' <<<"$libraries" || fail "$libraries"
  bytes=$(cd "$root" && stat --format %s usr/local/bin/warpfold-server usr/local/bin/warpfold "$kShare"/* |
    awk '{ sum += $1 } END { print sum }')
  echo "Beyond its base the image has $bytes bytes"
  ((bytes < kMaxBytes)) || fail "$bytes bytes"
}

check_sbom() {
  local root=$1 name
  gzip --decompress --stdout "$root/$kShare/notices.txt.gz" | grep 'libgrpc-dev' >/dev/null ||
    fail "there are no notices"
  for name in libgrpc-dev libssl-dev base-files; do
    grep -q "\"name\": \"$name\"" "$root/$kSbom" || fail "$name is not in the bill of materials"
  done
  if [[ -x $tools/bin/pyspdxtools ]]; then
    "$tools/bin/pyspdxtools" --infile "$root/$kSbom" || fail "the bill of materials is not valid"
  fi
}

# Runs a command of the image as its process 1: with any user, without capabilities or a way to get any,
# without anything that can be written, and without a shell or another program of the base.
confined() {
  local root=$1 command=$2
  shift 2
  # shellcheck disable=SC2016 # expanded by the inner shell
  exec unshare --mount --pid --fork --kill-child bash -c '
    root=$1 command=$2
    shift 2
    mount --bind "$root" "$root"
    mount -o remount,ro,bind "$root"
    for folder in usr/bin usr/sbin; do mount -t tmpfs -o ro none "$root/$folder"; done
    mount -t proc proc "$root/proc"
    exec capsh --chroot="$root" --drop=all --no-new-privs --groups= --gid=12345 --uid=12345 \
      --shell="$command" -- "$@"' bash "$root" "$command" "$@"
}

# Sets `runner_pid`, and `server_pid`, the server's own process as it is numbered here.
start_server() {
  local log deadline=$((SECONDS + kReadyTimeoutS)) status
  log=$(mktemp)
  confined "$1" /usr/local/bin/warpfold-server --listen=0.0.0.0:50051 --device=cpu \
    --allow_insecure >"$log" 2>&1 &
  runner_pid=$!
  until grep '^READY ' "$log"; do
    if ! kill -0 "$runner_pid" 2>/dev/null || ((SECONDS >= deadline)); then
      cat "$log" >&2
      fail "the server in the image is not ready"
    fi
    sleep 0.1
  done
  rm "$log"
  server_pid=$(tr -d ' ' <"/proc/$runner_pid/task/$runner_pid/children")
  status=$(<"/proc/$server_pid/status")
  expect "$(awk '/^Uid:/ { print $2, $3, $4, $5 }' <<<"$status")" "12345 12345 12345 12345"
  expect "$(awk '/^NSpid:/ { print $NF }' <<<"$status")" 1
  expect "$(awk '/^NoNewPrivs:/ { print $2 }' <<<"$status")" 1
  expect "$(awk '/^Cap(Inh|Prm|Eff|Bnd|Amb):/ { print $2 }' <<<"$status" | sort -u)" 0000000000000000
}

# The image says how to get plaintext: its server does not listen for other machines without keys or the flag.
check_plaintext() {
  local said status=0
  said=$(confined "$1" /usr/local/bin/warpfold-server --listen=0.0.0.0:50051 --device=cpu 2>&1) || status=$?
  expect "$status" 2
  [[ $said == *--allow_insecure* && $(wc -l <<<"$said") == 1 ]] || fail "$said"
}

stop_server() {
  local status=0
  kill -TERM "$server_pid"
  wait "$runner_pid" || status=$?
  runner_pid=
  expect "the server's exit code $status" "the server's exit code 0"
}

# Linked statically, the server gets its own recvmsg and SSL_read by other means than a shared one.
check_watch() {
  local bin=$1/usr/local/bin
  WARPFOLD_SERVER=$bin/warpfold-server WARPFOLD_CLI=$bin/warpfold WARPFOLD_DEVICE=cpu \
    /usr/bin/python3 -B "$here/../e2e/floods_test.py" FloodsTest.test_each_is_cut
}

ip link set lo up
check_configuration
container=$("${buildah[@]}" from --pull-never localhost/warpfold)
root=$("${buildah[@]}" mount "$container")
check_files "$root"
check_sbom "$root"
[[ -z ${WARPFOLD_KEEP-} ]] || cp "$root"/usr/local/bin/warpfold{,-server} "$WARPFOLD_KEEP"
check_plaintext "$root"
start_server "$root"
(confined "$root" /usr/local/bin/warpfold health)
sum=$(confined "$root" /usr/local/bin/warpfold reduce --op sum --dtype int64 --iota 1000000)
expect "$sum" "sum 499999500000"
# What the confinement takes away must really be gone.
! (confined "$root" /bin/sh -c true) 2>/dev/null || fail "there is a shell"
stop_server
check_watch "$root"
echo "The image's server starts as any user without privileges or a shell, reduces and drains"
