# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Where an array on an NVIDIA GPU lies, and by which handle another process can open its memory (CUDA Driver
API 13.0, sections 6.11 and 6.13).

By way of the driver's library, which a process that has such an array has loaded. Every failure is None: the
array is then staged through the host.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from warpfold import _native
from warpfold.element_types import element_type

_CUDA = 2  # DLPack's number
_ATTRIBUTE_CONTEXT = 1
_ATTRIBUTE_BUFFER_ID = 7
_HANDLE_BYTES = 64


class Place(NamedTuple):
    """Of an array whose elements lie in row-major order without gaps."""

    address: int
    type: str
    shape: tuple[int, ...]


class Allocation(NamedTuple):
    """Of the driver's, in which the library that owns the array may have laid many."""

    number: int  # no other allocation of the process ever has it
    begin: int
    nbytes: int
    context: int


def place_of(array: Any) -> Place | None:
    """None for an array that is empty, has gaps, or elements of another type."""
    place = _by_dlpack(array) if hasattr(array, "__dlpack__") else _by_interface(array)
    return None if place is None or 0 in place.shape else place


def allocation_of(address: int) -> Allocation | None:
    """Waits until the GPU has done what this process asked of it: the server knows nothing of its streams."""
    import ctypes

    driver = _driver()
    if driver is None:
        return None
    context, number = ctypes.c_void_p(), ctypes.c_uint64()
    where = ctypes.c_uint64(address)
    if driver.cuPointerGetAttribute(ctypes.byref(context), _ATTRIBUTE_CONTEXT, where) != 0 or \
            driver.cuPointerGetAttribute(ctypes.byref(number), _ATTRIBUTE_BUFFER_ID, where) != 0 or \
            driver.cuCtxPushCurrent_v2(context) != 0:
        return None
    begin, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
    found = driver.cuMemGetAddressRange_v2(ctypes.byref(begin), ctypes.byref(nbytes), where) == 0 and \
        driver.cuCtxSynchronize() == 0
    driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    return Allocation(number.value, begin.value, nbytes.value, context.value or 0) if found else None


def finish(array: Any) -> None:
    """Waits until the GPU has done what this process asked of it, if there is a driver. The thread that
    copies the array may have another current stream than the one that wrote it."""
    driver = _driver()
    if driver is not None and (address := _address_of(array)):
        allocation_of(address)


def _address_of(array: Any) -> int | None:
    if not hasattr(array, "__dlpack__"):
        return int(array.__cuda_array_interface__["data"][0])
    try:
        view = _native.View(array)
    except TypeError:
        return None
    return view.address if view.device == _CUDA else None


def handle_of(allocation: Allocation) -> bytes | None:
    """A CUipcMemHandle. None for memory that cannot be shared so: managed, mapped, or from a pool."""
    import ctypes

    driver = _driver()
    if driver is None or driver.cuCtxPushCurrent_v2(ctypes.c_void_p(allocation.context)) != 0:
        return None
    handle = ctypes.create_string_buffer(_HANDLE_BYTES)
    made = driver.cuIpcGetMemHandle(handle, ctypes.c_uint64(allocation.begin)) == 0
    driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    return handle.raw if made else None


@functools.cache
def _driver() -> Any:
    import ctypes

    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _by_dlpack(array: Any) -> Place | None:
    try:
        view = _native.View(array)
    except TypeError:
        return None
    return Place(view.address, view.type, view.shape) if view.device == _CUDA and view.contiguous else None


def _by_interface(array: Any) -> Place | None:
    """Numba's protocol, "CUDA Array Interface" version 3."""
    import numpy

    interface = array.__cuda_array_interface__
    dtype, shape = numpy.dtype(interface["typestr"]), tuple(interface["shape"])
    name = element_type(dtype)
    strides = interface.get("strides")
    expected: list[int] = []
    nbytes = dtype.itemsize
    for length in reversed(shape):
        expected.insert(0, nbytes)
        nbytes *= length
    if name is None or interface.get("mask") is not None or (strides and list(strides) != expected):
        return None
    return Place(interface["data"][0], name, shape)
