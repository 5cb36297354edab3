#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
#
# warpfold-server under compute-sanitizer's memcheck, as a process that takes signals as the server does:
# the sanitizer does not hand them on. Environment: CHECKED_SERVER, the executable; CHECKED_SERVER_LOG.
# Exit code 9: the sanitizer found something.
compute-sanitizer --tool memcheck --error-exitcode 9 --log-file "$CHECKED_SERVER_LOG" "$CHECKED_SERVER" "$@" &
sanitizer=$!
trap 'kill -TERM $(pgrep -P "$sanitizer")' TERM INT
wait "$sanitizer" # until it ends, or a signal comes
wait "$sanitizer"
