#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# statusz_picture.sh BIN PICTURE: makes docs/images/statusz.png anew. BIN has warpfold-server and warpfold.
# Needs Debian's package chromium, which no test needs.
set -euo pipefail
if (($# != 2)); then
  echo "usage: statusz_picture.sh BIN PICTURE" >&2
  exit 2
fi
bin=$1
picture=$(realpath -m "$2")
type -P chromium >/dev/null || { echo "statusz_picture.sh: chromium is not installed" >&2; exit 1; }
folder=$(mktemp --directory)
server=
slow_client=
trap 'kill $server $slow_client 2>/dev/null || true; rm -rf "$folder"' EXIT

"$bin/warpfold-server" --listen="unix:$folder/grpc" --admin_listen=127.0.0.1:0 --device=cpu \
  >"$folder/ready" 2>/dev/null &
server=$!
until grep -q '^READY ' "$folder/ready"; do
  kill -0 "$server" || exit 1
  sleep 0.1
done
admin=$(grep -o ' admin=[^ ]*' "$folder/ready")
# A page with some content: an array that is being reduced, an error, and a call that is still sending.
"$bin/warpfold" reduce --target "unix:$folder/grpc" --op sum --iota 1000000
printf '\377\377\377\377\377\377\377\177%.0s' 1 2 >"$folder/large"
"$bin/warpfold" reduce --target "unix:$folder/grpc" --op sum --dtype int64 "$folder/large" || true
mkfifo "$folder/slow"
"$bin/warpfold" reduce --target "unix:$folder/grpc" --op sum --dtype float32 - \
  <"$folder/slow" >/dev/null 2>&1 &
slow_client=$!
exec 3>"$folder/slow"
head -c 33554432 /dev/zero >&3
sleep 1
chromium --headless --no-sandbox --hide-scrollbars --window-size=1000,1400 "--user-data-dir=$folder/profile" \
  "--screenshot=$picture" "http://${admin# admin=}/statusz"
