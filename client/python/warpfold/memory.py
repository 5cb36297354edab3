# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that a server on this machine reads and writes itself, registered over its memory socket."""

from __future__ import annotations

import bisect
import math
import operator
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeVar

from warpfold import _native, gpu, options
from warpfold.arrays import Elements, Reference
from warpfold.calls import Settings
from warpfold.element_types import bfloat16, dtype_of, element_type
from warpfold.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
    WarpfoldError,
)
from warpfold.stops import Stop

if TYPE_CHECKING:
    import numpy

# The server opens GPU memory in a thousandth of that. In a longer wait the array could have been sent. The
# call's own timeout may be shorter.
_OPENING_S = 1.0
# After a wait as long as _SILENT_S nobody waits for _SKIPPED_S: arrays are sent instead.
_SILENT_S = 0.1
_SKIPPED_S = 10.0
# The server is not asked for _REFUSED_S about an allocation that it has refused, though another server might
# open it; if it had no place, for _SKIPPED_S. Refusals of at most _MOST_REFUSED allocations are remembered.
_REFUSED_S = 60.0
_MOST_REFUSED = 1024
# The server writes results to addresses that are multiples of their size.
_RESULT_BYTES = 8

T = TypeVar("T")


class _Opened:
    """An allocation on a GPU that the server keeps open as long as this object lives."""

    __slots__ = ("__weakref__", "begin", "registered")

    def __init__(self, begin: int, registered: _native.RegisteredMemory):
        self.begin = begin
        self.registered = registered


class _Allocation(NamedTuple):
    """On a GPU, to be opened for results or only to be read."""

    number: int  # the driver's: a later allocation may have the same address, but not the number
    for_results: bool


class Memory:
    """The memory that one client has registered, which lives as long as the arrays in it. Any thread may use
    it."""

    def __init__(self, path: options.Path):
        self._path = options.socket_path("memory_socket", path)
        # A signal handler may close the client while its own thread has this lock.
        self._lock = threading.RLock()
        self._connection: _native.MemoryConnection | None = None
        # Addresses in ascending order, and what begins there. Replaced as a whole, so that readers need no
        # lock.
        self._shared: tuple[list[int], list[weakref.ref[_native.SharedMemory]]] = ([], [])
        self._opened: weakref.WeakValueDictionary[_Allocation, _Opened] = weakref.WeakValueDictionary()
        # The keys are the ids of the arrays on a GPU that hold them, and whether they take results.
        self._holders: dict[tuple[int, bool], tuple[weakref.ref[Any], _Opened]] = {}
        # Until when not to ask: about anything on a GPU, and by allocation, the oldest first.
        self._skipped_until = 0.0
        self._refused: dict[_Allocation, float] = {}
        self._is_closed = False
        # Whether the server may write results to arrays: until it says that it does so for its own user only.
        self._takes_results = True

    def of_call(self, settings: Settings, stop: Stop | None) -> MemoryOfCall:
        return MemoryOfCall(self, settings, stop)

    def close(self) -> None:
        """Closes the GPU memory that the server has opened, except for memory that calls in progress still
        use."""
        with self._lock:
            self._is_closed = True
            connection, self._connection = self._connection, None
        # This runs without the lock, which others need meanwhile. Nobody adds anything any more.
        self._holders.clear()
        del connection

    def empty(self, shape: options.Shape, dtype: Any, settings: Settings, stop: Stop | None) \
            -> numpy.ndarray[Any, Any]:
        import numpy

        kind = bfloat16() if dtype == "bfloat16" else numpy.dtype(dtype)
        if element_type(kind) is None:
            raise TypeError(f"elements of {kind} cannot be reduced")
        lengths = _lengths_of(shape)
        if any(length < 0 for length in lengths):
            raise ValueError(f"a length is negative in the shape {lengths}")
        nbytes = math.prod(lengths) * kind.itemsize
        if nbytes >= 2**63 or max(lengths, default=0) >= 2**63:
            raise ResourceExhaustedError(f"no machine has memory of the shape {lengths}", "TOO_MUCH_MEMORY")
        memory = self._allocate(max(nbytes, 1), settings, stop)
        with self._lock:
            alive = [(begin, known) for begin, known in zip(*self._shared, strict=True)
                     if known() is not None]
            alive.append((memory.address, weakref.ref(memory)))
            alive.sort(key=lambda item: item[0])
            self._shared = ([begin for begin, _ in alive], [known for _, known in alive])
        array: numpy.ndarray[Any, Any] = memory.bytes()[:nbytes].view(kind).reshape(lengths)
        return array

    def _allocate(self, nbytes: int, settings: Settings, stop: Stop | None) -> _native.SharedMemory:
        """For results, too, unless this process has another user than the server's."""
        def ask() -> _native.SharedMemory:
            return self._ask(lambda connection, rest: connection.allocate(nbytes, self._takes_results, rest,
                                                                          stop), settings, stop)
        try:
            return ask()
        except PermissionDeniedError:
            if not self._takes_results:
                raise
        self._takes_results = False
        return ask()

    def refer(self, elements: Elements) -> None:
        """Lets elements that lie in this memory be passed by reference."""
        view = elements.view
        memory = None if view is None else self._that_has(view.address, view.nbytes)
        if view is None or memory is None:
            return
        offset = view.address - memory.address
        # A view may have the bytes of elements in one more dimension.
        elements.reference = Reference(memory.token, offset, math.prod(elements.shape or ()), memory)
        elements.way = "shared memory"

    def place_of(self, array: numpy.ndarray[Any, Any]) -> Reference | None:
        """Where the server can write all elements of this array; None if it cannot."""
        address = array.__array_interface__["data"][0]
        is_place = self._takes_results and array.flags.c_contiguous
        memory = self._that_has(address, array.nbytes) if is_place else None
        if memory is None or address % _RESULT_BYTES != 0:
            return None
        return Reference(memory.token, address - memory.address, array.size, memory)

    def _that_has(self, address: int, nbytes: int) -> _native.SharedMemory | None:
        """The shared memory in which all of these bytes lie."""
        begins, known = self._shared
        at = bisect.bisect_right(begins, address) - 1
        memory = known[at]() if at >= 0 and nbytes > 0 else None
        if memory is None or address + nbytes > memory.address + memory.nbytes:
            return None
        return memory

    def of_gpu(self, array: Any, settings: Settings, stop: Stop | None) -> Elements | None:
        """An array in GPU memory, by reference; None if it has to be staged."""
        place = gpu.place_of(array)
        if place is None:
            return None
        reference = self.refer_to_gpu(array, place, settings, stop, for_results=False)
        if reference is None:
            return None
        return Elements(place.type, dtype_of(place.type), "gpu memory", shape=place.shape, owner=array,
                        reference=reference)

    def refer_to_gpu(self, array: Any, place: gpu.Place, settings: Settings, stop: Stop | None, *,
                     for_results: bool) -> Reference | None:
        """Waits until the GPU has finished this process's work. None if the server cannot open the memory."""
        number = gpu.settle(place.address)
        if not number:  # memory that cannot be shared may have the number 0
            return None
        allocation = _Allocation(number, for_results)
        opened = self._opened.get(allocation)
        if opened is None:
            opened = self._open_unless_refused(allocation, place.address, settings, stop)
            if opened is None:
                return None
        holder = self._holders.get((id(array), for_results))
        if holder is None or holder[0]() is not array or holder[1] is not opened:
            self._hold(array, for_results, opened)
        return Reference(opened.registered.token, place.address - opened.begin, math.prod(place.shape),
                         opened, on_gpu=True)

    def _open_unless_refused(self, allocation: _Allocation, address: int, settings: Settings,
                             stop: Stop | None) -> _Opened | None:
        begin_s = time.monotonic()
        if begin_s < max(self._skipped_until, self._refused.get(allocation, 0.0)):
            return None
        try:
            return self._open(allocation, address, settings.within(_OPENING_S), stop)
        except CancelledError:
            raise
        except WarpfoldError as error:  # a server elsewhere, or one on the CPU, or one that hangs
            end_s = time.monotonic()
            if end_s - begin_s >= _SILENT_S:
                self._skipped_until = end_s + _SKIPPED_S
            elif not isinstance(error, (UnavailableError, DeadlineExceededError, FailedPreconditionError)):
                is_full = isinstance(error, ResourceExhaustedError)
                with self._lock:
                    self._refused.pop(allocation, None)
                    if len(self._refused) >= _MOST_REFUSED:
                        self._refused.pop(next(iter(self._refused)), None)
                    self._refused[allocation] = end_s + (_SKIPPED_S if is_full else _REFUSED_S)
            return None

    def _open(self, allocation: _Allocation, address: int, settings: Settings,
              stop: Stop | None) -> _Opened | None:
        found = gpu.handle_of(address)
        if found is None:
            return None
        begin, nbytes, handle, gpu_id = found
        for_results = allocation.for_results
        opened = _Opened(begin, self._ask(
            lambda connection, rest: connection.register_gpu(handle, gpu_id, 0, nbytes, for_results, rest,
                                                             stop), settings, stop))
        self._opened[allocation] = opened
        return opened

    def _hold(self, array: Any, for_results: bool, opened: _Opened) -> None:
        key = (id(array), for_results)
        holders = self._holders

        def forget(reference: weakref.ref[Any]) -> None:
            # By now the id may belong to another array.
            if key in holders and holders[key][0] is reference:
                del holders[key]

        try:
            with self._lock:
                holders[key] = (weakref.ref(array, forget), opened)
                if self._is_closed:  # maybe only just, by a signal's handler
                    holders.clear()
        except TypeError:
            return  # its registration lives as long as the call

    def _ask(self, question: Callable[[_native.MemoryConnection, _native.Settings], T], settings: Settings,
             stop: Stop | None) -> T:
        connection, old = self._connect(None, settings, stop)
        try:
            return question(connection, settings.native())
        except UnavailableError:
            if not old:
                raise
        # It reconnects by itself after its server has ended, but not if the server was silent for too long.
        connection = self._connect(connection, settings, stop)[0]
        return question(connection, settings.native())

    def _connect(self, broken: _native.MemoryConnection | None, settings: Settings,
                 stop: Stop | None) -> tuple[_native.MemoryConnection, bool]:
        """A connection, and whether it was there before."""
        connection = self._connection
        if connection is not None and connection is not broken:
            return connection, True
        # This call may have to wait, but others, which have their own timeouts, must not wait for it.
        opened = _native.MemoryConnection.open(self._path, settings.native(), stop)
        with self._lock:
            kept = self._connection
            if kept is None or kept is broken:
                self._connection = kept = opened
            if self._is_closed:  # maybe only just, by a signal's handler
                self._connection = None  # this call was in progress, and is the last
            return kept, kept is not opened


class MemoryOfCall(NamedTuple):
    """A client's memory for one call, with that call's timeout and cancellation."""

    memory: Memory
    settings: Settings
    stop: Stop | None

    def refer(self, elements: Elements) -> None:
        self.memory.refer(elements)

    def of_gpu(self, array: Any) -> Elements | None:
        return self.memory.of_gpu(array, self.settings, self.stop)

    def place_of(self, array: numpy.ndarray[Any, Any]) -> Reference | None:
        return self.memory.place_of(array)

    def place_on_gpu(self, array: Any, place: gpu.Place) -> Reference | None:
        """Where the server can write all elements of this array; None if it cannot."""
        if place.address % _RESULT_BYTES != 0:
            return None
        return self.memory.refer_to_gpu(array, place, self.settings, self.stop, for_results=True)


def _lengths_of(shape: options.Shape) -> tuple[int, ...]:
    if isinstance(shape, SupportsIndex):
        try:
            return (operator.index(shape),)
        except TypeError:  # a NumPy array, which may be a sequence
            pass
    try:
        return tuple(operator.index(length) for length in shape)  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(f"shape must be a whole number, or a tuple of them, not {shape!r}") from None
