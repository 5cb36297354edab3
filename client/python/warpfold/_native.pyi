# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The extension module over the C++ client. Arguments are by position; nothing here is public."""

from collections.abc import Callable
from typing import Any

# See client/python/native/results.h.
Outcome = tuple[str, Any, int | None, int | None, tuple[str, str, str, dict[str, str]] | None]
Answer = tuple[list[Outcome], int, str, tuple[float, float, float, float, float]]

def operator_names() -> list[str]: ...

class View:
    """An array where it lies. TypeError for what has neither DLPack nor a buffer."""

    type: str
    device: int
    shape: tuple[int, ...]
    nbytes: int
    contiguous: bool
    def __init__(self, array: object, /) -> None: ...

class Task:
    """What to compute: type, operators, (rows, columns), wrap, ignore NaN, modulus, ddof, algorithm."""

    def __init__(self, type: str, operators: list[str], matrix: tuple[int, int] | None, wrap: bool,
                 ignore_nan: bool, modulus: int | None, ddof: int, algorithm: str, /) -> None: ...

class Settings:
    """How to call: timeout in seconds, streams, checksum, request id."""

    def __init__(self, timeout: float | None, streams: int, checksum: bool, request_id: str, /) -> None: ...

class Stop:
    """Ends the calls that were given it, from any thread."""

    def __init__(self) -> None: ...
    def request(self) -> None: ...

class Client:
    def __init__(self, targets: list[str], connections: int, max_attempts: int,
                 tls: tuple[str, str, str] | None, /) -> None: ...
    def reduce(self, view: View, task: Task, settings: Settings, progress: Callable[[int], object] | None,
               stop: Stop | None, /) -> Answer: ...
    def info(self, settings: Settings, /) -> dict[str, Any]: ...
    def is_serving(self, settings: Settings, /) -> bool: ...

class Writer:
    """An array that is sent piece by piece; one thread at a time."""

    def __init__(self, client: Client, task: Task, settings: Settings,
                 progress: Callable[[int], object] | None, stop: Stop | None, /) -> None: ...
    def write(self, view: View, /) -> None: ...
    def commit(self) -> Answer: ...
    def close(self) -> None:
        """Ends the call unless it was committed; nothing may follow."""
