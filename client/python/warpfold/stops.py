# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""How to end a call that runs on a different thread from the one that waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from warpfold import _native
from warpfold.errors import WarpfoldError


class Stop(_native.Stop):
    """Ends one call, from any thread, by request().

    This ends the client library's work at once, but not the caller's code, such as an iterator that waits for
    its next piece. While the call's thread is in such code, the library reads nothing of the array, so nobody
    who waits for the call needs to wait for the thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._in_callers_code = False
        self._error: Callable[[], WarpfoldError] | None = None

    def __enter__(self) -> None:
        """The call's thread enters it around the caller's code. Raises the error of leave()."""
        self._go(True)

    def __exit__(self, *unused: object) -> None:
        self._go(False)

    def leave(self, error: Callable[[], WarpfoldError]) -> bool:
        """Has the call end with `error` when the caller's code next begins or ends: the call sends no more of
        the array. Returns whether the call's thread is in that code, so that nobody has to wait for it."""
        with self._lock:
            self._error = error
            return self._in_callers_code

    def _go(self, in_callers_code: bool) -> None:
        with self._lock:
            self._in_callers_code = in_callers_code
            if self._error is not None:
                raise self._error()


_NOBODY_WAITS = contextlib.nullcontext()


def in_callers_code(stop: Stop | None) -> contextlib.AbstractContextManager[None]:
    """For a with statement around the caller's code. Without a Stop, only this thread waits."""
    return _NOBODY_WAITS if stop is None else stop
