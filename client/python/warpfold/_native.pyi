# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The extension module over the C++ client. Arguments are by position; nothing here is public."""

from collections.abc import Callable
from typing import Any

import numpy

# See client/python/native/results.h.
Outcome = tuple[str, Any, int | None, int | None, tuple[str, str, str, dict[str, str]] | None]
Answer = tuple[list[Outcome], int, str, tuple[float, float, float, float, float]]

# Token, id, owner, type, (rows, columns), elements, bytes, age and time left in seconds.
Array = tuple[bytes, int, str, str, tuple[int, int] | None, int, int, float, float]

# Of one operator over segments: the type and the bytes of 8-byte values, one for each segment.
Columns = list[tuple[str, bytes]]
# Operator, columns, and the first segment without a value with its error; there are no columns then.
SegmentsOutcome = tuple[str, Columns, tuple[int, tuple[str, str, str, dict[str, str]]] | None]
SegmentsAnswer = tuple[list[SegmentsOutcome], int, str, tuple[float, float, float, float, float]]
# The length of all segments, at least 1, or the lengths of each, as contiguous uint64.
Segments = int | numpy.ndarray[Any, numpy.dtype[numpy.uint64]]
# Where the server writes these values instead, if it does: the token of SharedMemory, and a byte offset.
Place = tuple[bytes, int] | None
# First and number of elements, and bytes: see client/partial_state.h.
State = tuple[int, int, bytes]

LEAF_BYTES: int  # of the canonical order

def operator_names() -> list[str]: ...
def text_of_no_value(operator: str, /) -> str: ...
def fault_of_target(name: str, /) -> str:
    """What is wrong with the name of one address, as the end of a sentence; empty if nothing can be seen."""

class View:
    """An array where it lies. TypeError for what has neither DLPack nor a buffer."""

    type: str
    device: int
    shape: tuple[int, ...]
    address: int
    last_byte: int | None  # the highest address of one of the elements' bytes, if there is any
    nbytes: int
    contiguous: bool
    may_be_mapped: bool  # set to False of memory that is no file's mapping
    def __init__(self, array: object, /) -> None: ...
    def contiguous_in(self, order: list[int], /) -> bool:
        """The same for the dimensions in this order."""

    def copy(self) -> bytes:
        """The elements in row-major order. ValueError where a mapped file was cut meanwhile; TypeError for
        a GPU's memory, and elements of more than 8 bytes."""

class Task:
    """What to compute: type, operators, (rows, columns), wrap (None where it is not named), ignore NaN,
    modulus, ddof, algorithm."""

    def __init__(self, type: str, operators: list[str], matrix: tuple[int, int] | None, wrap: bool | None,
                 ignore_nan: bool, modulus: int | None, ddof: float, algorithm: str, /) -> None: ...

class Settings:
    """How to call: timeout in seconds, streams, checksum, request id, traceparent, tracestate."""

    def __init__(self, timeout: float | None, streams: int, checksum: bool, request_id: str,
                 traceparent: str, tracestate: str, /) -> None: ...

class Stop:
    """Ends the calls that were given it, from any thread."""

    def __init__(self) -> None: ...
    def request(self) -> None: ...

class Client:
    def __init__(self, targets: list[str], connections: int, max_attempts: int,
                 tls: tuple[str, str, str] | None, /) -> None: ...
    def reduce(self, view: View, task: Task, settings: Settings, progress: Callable[[int], object] | None,
               stop: Stop | None, /) -> Answer: ...
    def reduce_plain(self, array: object, task: Task, /) -> bool | int | float | None:
        """The one number of a task over the buffer of an array that lies in no file, with the default
        settings. None where the array has no buffer without gaps."""
    def info(self, settings: Settings, stop: Stop | None, /) -> dict[str, Any]: ...
    def is_serving(self, settings: Settings, stop: Stop | None, /) -> bool: ...
    def reduce_reference(self, token: bytes, byte_offset: int, scalar_count: int, task: Task,
                         settings: Settings, progress: Callable[[int], object] | None, stop: Stop | None,
                         /) -> Answer: ...
    @staticmethod
    def column_kinds(task: Task, /) -> list[str]:
        """The types that Columns of this task have."""
    def reduce_segments(self, view: View, order: list[int], segments: Segments, place: Place, task: Task,
                        settings: Settings, progress: Callable[[int], object] | None, stop: Stop | None,
                        /) -> SegmentsAnswer: ...
    def reduce_segments_reference(self, token: bytes, byte_offset: int, scalar_count: int, segments: Segments,
                                  place: Place, task: Task, settings: Settings, stop: Stop | None,
                                  /) -> SegmentsAnswer: ...
    def reduce_part(self, views: list[View], first_element: int, task: Task, settings: Settings,
                    progress: Callable[[int], object] | None, stop: Stop | None, /) -> State: ...
    def merge(self, states: list[State], task: Task, settings: Settings, stop: Stop | None, /) -> Answer: ...
    def merge_to_state(self, states: list[State], task: Task, settings: Settings, stop: Stop | None,
                       /) -> State: ...
    def put(self, view: View, task: Task, time_to_live: float, owner: str, settings: Settings,
            progress: Callable[[int], object] | None, stop: Stop | None, answers: list[Array], /) -> None: ...
    def get_array(self, token: bytes, settings: Settings, stop: Stop | None, /) -> Array: ...
    def list_arrays(self, owner: str, settings: Settings, stop: Stop | None, /) -> list[Array]: ...
    def delete_array(self, token: bytes, settings: Settings, stop: Stop | None, /) -> None: ...

class Writer:
    """An array that is sent piece by piece; one thread at a time."""

    def __init__(self, client: Client, task: Task, settings: Settings,
                 progress: Callable[[int], object] | None, stop: Stop | None, /) -> None: ...
    def write(self, view: View, /) -> None: ...
    def commit(self) -> Answer: ...
    def close(self) -> None:
        """Ends the call unless it was committed; nothing may follow."""

class SharedMemory:
    """Memory that the server has mapped, until this is gone."""

    token: bytes
    address: int
    nbytes: int
    def bytes(self) -> numpy.ndarray[Any, Any]:
        """As numbers of 8 bits, of which any part keeps this alive."""

class RegisteredMemory:
    """A GPU's memory that the server has opened, until this is gone."""

    token: bytes

class MemoryConnection:
    @staticmethod
    def open(path: str, settings: Settings, stop: Stop | None, /) -> MemoryConnection: ...
    def allocate(self, byte_count: int, for_results: bool, settings: Settings, stop: Stop | None,
                 /) -> SharedMemory: ...
    def register_gpu(self, handle: bytes, pci_bus_id: str, byte_offset: int, byte_count: int,
                     for_results: bool, settings: Settings, stop: Stop | None, /) -> RegisteredMemory: ...

class GpuDriver:
    """Of NVIDIA's driver, by the addresses of its functions: see client/python/native/gpu_driver.h."""

    def __init__(self, address_of: Callable[[str], int], /) -> None: ...
    def settle(self, address: int, /) -> int | None:
        """Waits for the GPU: the number of the allocation that has the address."""

    def handle_of(self, address: int, /) -> tuple[int, int, bytes, str] | None:
        """Begin, bytes and handle of the allocation."""

    def write(self, address: int, source: int, nbytes: int, /) -> bool:
        """Copies bytes from an address of the host; False if the driver refuses."""
