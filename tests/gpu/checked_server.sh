#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# warpfold-server under compute-sanitizer's memcheck, as a process that takes signals like the server: the
# sanitizer does not pass them on. Environment: CHECKED_SERVER, the executable; CHECKED_SERVER_LOG.
# Exit code 9: the sanitizer found something.
setsid compute-sanitizer --tool memcheck --error-exitcode 9 --require-cuda-init no \
  --log-file "$CHECKED_SERVER_LOG" \
  "$CHECKED_SERVER" "$@" &
sanitizer=$!
# Other servers may run: this means only the one in the sanitizer's session.
trap 'pkill -TERM -x warpfold-server -s "$sanitizer"' TERM INT
wait "$sanitizer" # until it ends, or a signal comes
wait "$sanitizer"
