# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that a server on this machine reads by itself, registered over its memory socket."""

from __future__ import annotations

import bisect
import math
import operator
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from warpfold import _native, gpu
from warpfold.arrays import Elements, Reference
from warpfold.element_types import dtype_of, element_type
from warpfold.errors import UnavailableError, WarpfoldError

if TYPE_CHECKING:
    import numpy

T = TypeVar("T")
Shape = SupportsIndex | Sequence[SupportsIndex]


class Memory:
    """What one client has registered, which lives as long as the arrays that lie in it. Any thread."""

    def __init__(self, path: str | os.PathLike[str]):
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._connection: _native.MemoryConnection | None = None
        # Addresses in rising order, and what begins there. Replaced as a whole, so that readers need no lock.
        self._shared: tuple[list[int], list[weakref.ref[_native.SharedMemory]]] = ([], [])
        self._allocations: weakref.WeakValueDictionary[int, _native.RegisteredMemory] = \
            weakref.WeakValueDictionary()
        # By the id of the array on a GPU that holds them.
        self._holders: dict[int, tuple[weakref.ref[Any], _native.RegisteredMemory]] = {}

    def empty(self, shape: Shape, dtype: Any) -> numpy.ndarray[Any, Any]:
        import numpy

        kind = numpy.dtype(_bfloat16() if dtype == "bfloat16" else dtype)
        if element_type(kind) is None:
            raise TypeError(f"elements of {kind} cannot be reduced")
        lengths = _lengths_of(shape)
        if any(length < 0 for length in lengths):
            raise ValueError(f"a length is negative in the shape {lengths}")
        nbytes = math.prod(lengths) * kind.itemsize
        memory = self._ask(lambda connection: connection.allocate(max(nbytes, 1)))
        with self._lock:
            alive = [(begin, known) for begin, known in zip(*self._shared, strict=True)
                     if known() is not None]
            alive.append((memory.address, weakref.ref(memory)))
            alive.sort(key=lambda item: item[0])
            self._shared = ([begin for begin, _ in alive], [known for _, known in alive])
        array: numpy.ndarray[Any, Any] = memory.bytes()[:nbytes].view(kind).reshape(lengths)
        return array

    def refer(self, elements: Elements) -> None:
        """Lets elements that lie in this memory go by reference."""
        view = elements.view
        begins, known = self._shared
        if view is None or view.nbytes == 0 or not begins:
            return
        at = bisect.bisect_right(begins, view.address) - 1
        memory = known[at]() if at >= 0 else None
        if memory is None or view.address + view.nbytes > memory.address + memory.nbytes:
            return
        offset = view.address - memory.address
        # A view may have the bytes of elements in one more dimension.
        elements.reference = Reference(memory.token, offset, math.prod(elements.shape or ()), memory)
        elements.way = "shared memory"

    def of_gpu(self, array: Any) -> Elements | None:
        """An array in a GPU's memory, by reference; None where it has to be staged."""
        place = gpu.place_of(array)
        allocation = None if place is None else gpu.allocation_of(place.address)
        if place is None or allocation is None:
            return None
        try:
            registered = self._register(array, allocation)
        except WarpfoldError:  # another machine's server or GPU, or one that computes on the CPU
            return None
        if registered is None:
            return None
        reference = Reference(registered.token, place.address - allocation.begin, math.prod(place.shape),
                              registered)
        return Elements(place.type, dtype_of(place.type), "gpu memory", shape=place.shape, owner=array,
                        reference=reference)

    def _register(self, array: Any, allocation: gpu.Allocation) -> _native.RegisteredMemory | None:
        registered = self._allocations.get(allocation.number)
        if registered is None:
            handle = gpu.handle_of(allocation)
            if handle is None:
                return None
            registered = self._ask(lambda connection: connection.register_gpu(handle, 0, allocation.nbytes))
            self._allocations[allocation.number] = registered
        holder = self._holders.get(id(array))
        if holder is None or holder[0]() is not array or holder[1] is not registered:
            self._hold(array, registered)
        return registered

    def _hold(self, array: Any, registered: _native.RegisteredMemory) -> None:
        key = id(array)
        holders = self._holders

        def forget(reference: weakref.ref[Any]) -> None:
            # The id may be another array's by now.
            if key in holders and holders[key][0] is reference:
                del holders[key]

        try:
            holders[key] = (weakref.ref(array, forget), registered)
        except TypeError:
            return  # its registration lives as long as the call

    def _ask(self, question: Callable[[_native.MemoryConnection], T]) -> T:
        connection, old = self._connect(None)
        try:
            return question(connection)
        except UnavailableError:
            if not old:
                raise
        # The server that had this connection is gone; there may be another one.
        return question(self._connect(connection)[0])

    def _connect(self, broken: _native.MemoryConnection | None) -> tuple[_native.MemoryConnection, bool]:
        """A connection, and whether it was there before."""
        with self._lock:
            connection = self._connection
            if connection is not None and connection is not broken:
                return connection, True
            self._connection = _native.MemoryConnection.open(self._path)
            return self._connection, False


def _bfloat16() -> Any:
    """NumPy knows it by this library alone."""
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("NumPy has no bfloat16 without ml_dtypes (pip install ml_dtypes)") from None
    return ml_dtypes.bfloat16


def _lengths_of(shape: Shape) -> tuple[int, ...]:
    if isinstance(shape, SupportsIndex):
        try:
            return (operator.index(shape),)
        except TypeError:  # a NumPy array, which may be a sequence
            pass
    return tuple(operator.index(length) for length in shape)  # type: ignore[union-attr]
