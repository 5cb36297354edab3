# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Where an array on an NVIDIA GPU lies, and the handle with which another process can open its memory.

The information comes from the driver's library, which a process that has such an array has loaded
(native/gpu_driver.h). Every failure returns None: the array is then staged through the host.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from warpfold import _native
from warpfold.element_types import ELEMENT_TYPES, element_type
from warpfold.exports import exported

# DLPack's numbers.
_CUDA = 2
_CUDA_MANAGED = 13


class Place(NamedTuple):
    """The place of an array whose elements lie in row-major order without gaps."""

    address: int
    type: str
    shape: tuple[int, ...]


def place_of(array: Any) -> Place | None:
    """None for an array that is empty, has gaps, or has elements of another type."""
    place = _by_dlpack(array) if hasattr(array, "__dlpack__") else _by_interface(array)
    return None if place is None or 0 in place.shape else place


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
    if not hasattr(array, "__dlpack__"):
        return int(array.__cuda_array_interface__["data"][0])
    try:
        view = exported(array)
    except TypeError:
        return None
    return view.address if view.device in (_CUDA, _CUDA_MANAGED) else None


@functools.cache
def _driver() -> _native.GpuDriver | None:
    import ctypes

    try:
        library = ctypes.CDLL("libcuda.so.1")
        return _native.GpuDriver(lambda name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    except (OSError, AttributeError):  # there is none, or one that lacks a function
        return None


def _by_dlpack(array: Any) -> Place | None:
    try:
        view = exported(array)
    except TypeError:
        return None
    if view.type not in ELEMENT_TYPES or view.device != _CUDA or not view.contiguous:
        return None
    return Place(view.address, view.type, view.shape)


def _by_interface(array: Any) -> Place | None:
    """Numba's protocol, "CUDA Array Interface" version 3."""
    interface = array.__cuda_array_interface__
    (name, nbytes), shape = _type_of(interface["typestr"]), tuple(interface["shape"])
    if name is None or interface.get("mask") is not None:
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
