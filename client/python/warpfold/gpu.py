# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Where an array on an NVIDIA GPU lies, the handle with which another process can open its memory, and copies
to it.

The information comes from the driver's library, which a process that has such an array has loaded
(native/gpu_driver.h). If one of these functions that return None fails, an array is staged through the host.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from warpfold import _native
from warpfold.element_types import ELEMENT_TYPES, element_bytes, element_type
from warpfold.exports import exported

if TYPE_CHECKING:
    import numpy

# DLPack's numbers.
_CUDA = 2
_CUDA_MANAGED = 13


class Place(NamedTuple):
    """The place of an array whose elements lie in row-major order without gaps."""

    address: int
    type: str
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.address + math.prod(self.shape) * element_bytes(self.type)


def place_of(array: Any) -> Place | None:
    """None for an array that is empty, has gaps, or has elements of another type."""
    view = _view_of(array)
    place = _by_interface(array, _interface_if_any(array)) if view is None else _by_dlpack(view)
    return None if place is None or 0 in place.shape else place


def target_of(array: Any) -> Place | None:
    """As place_of, for an array to write to, which may be empty, or have memory that no other process can
    open. None if it does not say that it is on a GPU by "CUDA Array Interface": DLPack may hand out a copy.
    TypeError or ValueError if it cannot be written to."""
    try:
        interface = _interface_of(array)
    except Exception as error:  # whatever the library raises says why
        raise TypeError(f"an array on a GPU that cannot be written to: {error}") from None
    if interface is None:
        return None
    # JAX promises that its arrays never change, and does not say so here.
    if interface["data"][1] or type(array).__module__.split(".")[0] in ("jax", "jaxlib"):
        raise ValueError("an array on a GPU that must not be written to: it is read-only")
    place = _by_interface(array, interface)
    if place is None or place.type == "bfloat16":
        raise TypeError("an array on a GPU that cannot be written to: its elements must lie in row-major "
                        "order without gaps, and be of a type that can be reduced and that NumPy has")
    return place


def write(place: Place, values: numpy.ndarray[Any, Any]) -> None:
    """Copies values of the host's memory, which have its type and its number, to a place. The GPU finishes
    this process's work first, which may be about it."""
    import numpy

    if values.nbytes == 0:
        return
    values = numpy.ascontiguousarray(values)
    driver = _driver()
    settled = None if driver is None else driver.settle(place.address)
    if driver is None or settled is None \
            or not driver.write(place.address, values.ctypes.data, values.nbytes):
        raise RuntimeError("the driver does not copy the values to the GPU")


def settle(address: int) -> int | None:
    """Waits until the GPU has finished this process's work, since the server knows nothing of its streams.
    Returns the driver's number of the allocation that contains the address, which no other allocation of the
    process ever has (the library that owns the array may have put many arrays in it); 0 if no context has the
    memory; None if it is not GPU memory, the work has failed, or there is no driver."""
    driver = _driver()
    return None if driver is None else driver.settle(address)


def handle_of(address: int) -> tuple[int, int, bytes, str] | None:
    """The start of the allocation that contains the address, its size in bytes, a CUipcMemHandle, and the PCI
    bus id of its GPU. None for memory that cannot be shared in this way: managed, mapped, or from a pool."""
    driver = _driver()
    return None if driver is None else driver.handle_of(address)


def finish(array: Any) -> None:
    """Waits until the GPU has finished this process's work, if there is a driver. The thread that copies the
    array may have a different current stream from the one that wrote it."""
    if _driver() is not None and (address := _address_of(array)):
        settle(address)


def _address_of(array: Any) -> int | None:
    view = _view_of(array)
    if view is not None:
        return view.address if view.device in (_CUDA, _CUDA_MANAGED) else None
    interface = _interface_if_any(array)
    return None if interface is None else int(interface["data"][0])


@functools.cache
def _driver() -> _native.GpuDriver | None:
    import ctypes

    try:
        library = ctypes.CDLL("libcuda.so.1")
        return _native.GpuDriver(lambda name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    except (OSError, AttributeError):  # there is none, or one that lacks a function
        return None


def _view_of(array: Any) -> _native.View | None:
    """None without DLPack, or if it fails: PyTorch exports only what is on the thread's current GPU."""
    if not hasattr(array, "__dlpack__"):
        return None
    try:
        return exported(array)
    except TypeError:
        return None


def _interface_of(array: Any) -> dict[str, Any] | None:
    """Numba's protocol, "CUDA Array Interface" version 3."""
    interface: dict[str, Any] | None = getattr(array, "__cuda_array_interface__", None)
    return interface


def _interface_if_any(array: Any) -> dict[str, Any] | None:
    """None if the library fails: PyTorch raises KeyError for types that the protocol does not have."""
    try:
        return _interface_of(array)
    except MemoryError:
        raise
    except Exception:
        return None


def _by_dlpack(view: _native.View) -> Place | None:
    if view.type not in ELEMENT_TYPES or view.device != _CUDA or not view.contiguous:
        return None
    return Place(view.address, view.type, view.shape)


def _by_interface(array: Any, interface: dict[str, Any] | None) -> Place | None:
    if interface is None or interface.get("mask") is not None:
        return None
    (name, nbytes), shape = _type_of(interface["typestr"]), tuple(interface["shape"])
    # The protocol cannot name this type. PyTorch says "<V2"; earlier versions said "<f2", which is float16.
    if str(getattr(array, "dtype", None)).endswith("bfloat16"):
        name = "bfloat16"
    if name is None:
        return None
    strides = interface.get("strides")
    if strides and tuple(strides) != _row_major(shape, nbytes):
        return None
    return Place(interface["data"][0], name, shape)


def _row_major(shape: tuple[int, ...], nbytes: int) -> tuple[int, ...]:
    """The strides of such an array, whose elements have `nbytes` bytes."""
    strides: list[int] = []
    for length in reversed(shape):
        strides.append(nbytes)
        nbytes *= length
    return tuple(reversed(strides))


@functools.lru_cache(maxsize=64)
def _type_of(typestr: str) -> tuple[str | None, int]:
    """The element type, if it is one, and its bytes."""
    import numpy

    dtype = numpy.dtype(typestr)
    return element_type(dtype), dtype.itemsize
