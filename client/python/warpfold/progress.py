# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""How far a call has got."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, Literal

Teller = Callable[[int, int | None], object] | Literal[True]  # a function, or a tqdm bar


class Meter:
    """Tells a callback, or a tqdm bar, how much was sent. A with statement gets the function that is called
    with the bytes sent so far: None if nobody wants to know. At its end everything was sent."""

    def __init__(self, progress: Teller | None, total: int | None):
        self._total = total
        self._told = 0
        self._callback = None if progress is True else progress
        self._bar: Any = _bar(total) if progress is True else None

    def tell(self, sent: int) -> None:
        # Bytes that are sent again after a failure are counted again, but the array does not grow by them.
        done = max(self._told, sent if self._total is None else min(sent, self._total))
        if self._bar is not None:
            self._bar.update(done - self._told)
        elif self._callback is not None:
            self._callback(done, self._total)
        self._told = done

    def __enter__(self) -> Callable[[int], object] | None:
        return None if self._bar is None and self._callback is None else self.tell

    def __exit__(self, error: type[BaseException] | None, *unused: object) -> None:
        try:
            if error is None:
                self.tell(self._told if self._total is None else self._total)
        finally:
            if self._bar is not None:
                self._bar.close()


def _bar(total: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ModuleNotFoundError("progress=True needs tqdm (pip install tqdm), or pass a function instead") \
            from None
    # A process may have no standard error at all.
    return tqdm(total=total, unit="B", unit_scale=True, disable=sys.stderr is None,
                file=_Unread(sys.stderr))


class _Unread:
    """Standard error, which may be a full disk: a bar that cannot be drawn does not end the call. (tqdm would
    also keep a lock that all its bars share.)"""

    def __init__(self, file: Any):
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __eq__(self, other: object) -> bool:
        return other is self._file  # by this tqdm recognises a terminal, to which it fits the bar

    __hash__ = None  # type: ignore[assignment]
