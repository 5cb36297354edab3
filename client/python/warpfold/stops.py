# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""How a call is ended that runs on another thread than the one that waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from warpfold import _native
from warpfold.errors import WarpfoldError


class Stop(_native.Stop):
    """Ends one call, from any thread, by request().

    That ends at once what the client library does, but no code of the caller's, as an iterator that waits for
    its next piece. While the call's thread is in such code the library reads nothing of the array, so who
    waits for the call need not wait for the thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._in_callers_code = False
        self._error: Callable[[], WarpfoldError] | None = None

    def __enter__(self) -> None:
        """The call's thread enters it around code of the caller's. Raises the error of leave()."""
        self._go(True)

    def __exit__(self, *unused: object) -> None:
        self._go(False)

    def leave(self, error: Callable[[], WarpfoldError]) -> bool:
        """Has the call end with `error` where the caller's code begins or ends next: it sends no more of the
        array. Whether the call's thread is in that code, so that nobody has to wait for it."""
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
    """For a with statement around code of the caller's. Without a Stop, nobody waits but this thread."""
    return _NOBODY_WAITS if stop is None else stop
