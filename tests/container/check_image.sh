#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# check_image.sh BASE BUILDAH...: checks the image localhost/warpfold, made on top of the archive BASE, in
# the store that the command BUILDAH... works on: its configuration, its files, and that its server
# starts, reduces an array that its client sends, and drains. Changes the network namespace it runs in.
set -euo pipefail
base=$1
buildah=("${@:2}")
readonly kReadyTimeoutS=60
readonly kUser=65532
server_pid=

fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { [[ $1 == "$2" ]] || fail "expected '$2', got '$1'"; }
config() { "${buildah[@]}" inspect --type image --format "{{.Docker.Config.$1}}" localhost/warpfold; }
trap '[[ -z $server_pid ]] || kill -KILL "$server_pid"' EXIT

check_configuration() {
  expect "$(config User)" "$kUser:$kUser"
  expect "$(config Entrypoint)" "[/usr/local/bin/warpfold-server --listen=0.0.0.0:50051]"
  expect "$(config Healthcheck.Test)" "[CMD /usr/local/bin/warpfold health]"
}

# The image adds the two executables to its base, and they load nothing but the C library.
check_files() {
  local root=$1 before after added libraries
  before=$(tar -tf "$base" | sed 's|/$||' | sort)
  after=$(cd "$root" && find . -not -path './run/*' | sort)
  added=$(comm -13 <(echo "$before") <(echo "$after"))
  expect "$added" $'./usr/local/bin/warpfold\n./usr/local/bin/warpfold-server'
  libraries=$(chroot "$root" ldd /usr/local/bin/warpfold-server /usr/local/bin/warpfold)
  ! grep -qE 'not found|libstdc|libgrpc|libprotobuf|libabsl|libssl' <<<"$libraries" || fail "$libraries"
}

# Runs a command in a container of the image, as the image's user.
run() { "${buildah[@]}" run --isolation chroot "$@"; }

# Sets `server_pid`, the server's own process, and `runner_pid`, that of buildah around it.
start_server() {
  local container=$1 root=$2 log deadline=$((SECONDS + kReadyTimeoutS))
  log=$(mktemp)
  # shellcheck disable=SC2016 # expanded by the inner shell
  run "$container" -- sh -c 'echo $$ >/tmp/pid; exec "$@"' sh \
    /usr/local/bin/warpfold-server --listen=0.0.0.0:50051 --device=cpu >"$log" 2>&1 &
  runner_pid=$!
  until grep '^READY ' "$log"; do
    if ! kill -0 "$runner_pid" 2>/dev/null || ((SECONDS >= deadline)); then
      cat "$log" >&2
      fail "the server in the image is not ready"
    fi
    sleep 0.1
  done
  rm "$log"
  server_pid=$(<"$root/tmp/pid")
  expect "$(awk '/^Uid:/ { print $2 }' "/proc/$server_pid/status")" "$kUser"
}

stop_server() {
  local status=0
  kill -TERM "$server_pid"
  wait "$runner_pid" || status=$?
  server_pid=
  expect "the server's exit code $status" "the server's exit code 0"
}

ip link set lo up
check_configuration
server=$("${buildah[@]}" from --pull-never localhost/warpfold)
client=$("${buildah[@]}" from --pull-never localhost/warpfold)
root=$("${buildah[@]}" mount "$server")
check_files "$root"
start_server "$server" "$root"
run "$client" -- /usr/local/bin/warpfold health
sum=$(run "$client" -- /usr/local/bin/warpfold reduce --op sum --dtype int64 --iota 1000000)
expect "$sum" "sum 499999500000"
stop_server
echo "The image's server starts as user $kUser, reduces and drains"
