# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that were forked from one that has used this package: gRPC's threads do not exist in them."""

from __future__ import annotations

import os

_FORKED = ("this process was forked from one that has used warpfold, whose connections and threads it does "
           "not have: start it by multiprocessing's 'spawn' or 'forkserver', or connect after the fork only")

# Whether gRPC was started in this process, or in one that it was forked from.
_started = False
_forked = False


def start() -> None:
    """Call this before making a client. RuntimeError in a process that was forked."""
    global _started
    check()
    _started = True


def check() -> None:
    """Call this before using a client. RuntimeError in a process that was forked."""
    if _forked:
        raise RuntimeError(_FORKED)


def _note_fork() -> None:
    global _forked
    _forked = _started


os.register_at_fork(after_in_child=_note_fork)
