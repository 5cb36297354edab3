# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""out=: arrays of the caller that take results, which the server writes there itself if it can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpfold import _native, gpu
from warpfold.columns import dtype_of_column
from warpfold.element_types import dtype_of
from warpfold.masks import has_mask
from warpfold.results import check_fits

if TYPE_CHECKING:
    import numpy

    from warpfold.arrays import Reference
    from warpfold.calls import Call
    from warpfold.memory import MemoryOfCall


@dataclass(slots=True)
class Output(ABC):
    """An array that takes the result of one operator."""

    array: Any
    dtype: numpy.dtype[Any]
    operator: str
    has_columns_type: bool  # whether the values in it have the bytes that the server writes

    @abstractmethod
    def find_place(self, array: Any, view: _native.View | None, memory: MemoryOfCall) -> Reference | None:
        """Where the server can write what it computes from `array` along axes; None if it must send it.

        view: where the array lies, if that is known.
        """

    @abstractmethod
    def filled(self, values: Any) -> Any:
        """The array with these values, which the server has sent. OutOfRangeError for integers that do not
        fit."""

    def _checked(self, values: Any) -> numpy.ndarray[Any, Any]:
        import numpy

        array: numpy.ndarray[Any, Any] = numpy.asarray(values)
        if not numpy.can_cast(array.dtype, self.dtype, "safe"):
            check_fits(array, self.dtype, self.operator, f"out, an array of {self.dtype}")
        return array


class _HostOutput(Output):
    """A NumPy array."""

    def find_place(self, array: Any, view: _native.View | None, memory: MemoryOfCall) -> Reference | None:
        if not self.has_columns_type:
            return None
        place = memory.place_of(self.array)
        # The server writes values while it still reads elements.
        return None if place is None or _may_overlap(self.array, array, view) else place

    def filled(self, values: Any) -> Any:
        import numpy

        numpy.copyto(self.array, self._checked(values), casting="same_kind")
        return self.array


@dataclass(slots=True)
class _GpuOutput(Output):
    """An array of any library on a GPU."""

    where: gpu.Place

    def find_place(self, array: Any, view: _native.View | None, memory: MemoryOfCall) -> Reference | None:
        is_there = self.has_columns_type and 0 not in self.where.shape
        if not is_there or _may_overlap_on_gpu(self.where, array):
            return None
        return memory.place_on_gpu(self.array, self.where)

    def filled(self, values: Any) -> Any:
        gpu.write(self.where, self._checked(values).astype(self.dtype, casting="same_kind"))
        return self.array


def _may_overlap(out: numpy.ndarray[Any, Any], array: Any, view: _native.View | None) -> bool:
    """Whether a contiguous array may have bytes of another one."""
    import numpy

    if isinstance(array, numpy.ndarray):
        return numpy.may_share_memory(array, out)
    if view is None or view.last_byte is None:
        return False
    # Another library's array may have its first element behind the others.
    is_before = view.contiguous and view.address >= out.ctypes.data + out.nbytes
    return not is_before and view.last_byte >= out.ctypes.data


def _may_overlap_on_gpu(out: gpu.Place, array: Any) -> bool:
    """The same. What has no place on a GPU is elsewhere, or is copied first."""
    says_its_place = hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__")
    place = gpu.place_of(array) if says_its_place else None
    return place is not None and place.address < out.end and out.address < place.end


def check_output(out: Any) -> None:
    """TypeError or ValueError for an `out` that cannot take any result."""
    if out is None:
        return
    import numpy

    if has_mask(out):
        raise TypeError("out must be an array without a mask")
    if isinstance(out, numpy.ndarray):
        if not out.flags.writeable:
            raise ValueError("out must be writeable: this array is read-only")
        return
    try:
        is_on_gpu = gpu.target_of(out) is not None
    except (TypeError, ValueError) as error:
        raise type(error)(f"out is {error}") from None
    if not is_on_gpu:
        raise TypeError(f"out must be a NumPy array, or an array on a GPU, not {type(out).__name__}")


def output_for(out: Any, shape: tuple[int, ...], operator: str, call: Call,
               answered: numpy.dtype[Any] | None) -> Output:
    """TypeError or ValueError unless `out` has the result's shape, and a type to which it can be cast.

    answered: the result's type, if the caller has named it.
    """
    import numpy

    target = None if isinstance(out, numpy.ndarray) else gpu.target_of(out)
    shape_of_out = tuple(out.shape) if target is None else target.shape
    if shape_of_out != shape:
        raise ValueError(f"out must have the shape of the result, {shape}, not {shape_of_out}")
    kinds = _native.Client.column_kinds(call.task)
    own = dtype_of_column(operator, kinds[0], call.elements)
    result = own if answered is None else answered
    dtype = out.dtype if target is None else dtype_of(target.type)
    if not numpy.can_cast(result, dtype, "same_kind"):
        raise TypeError(f"out cannot be an array of {dtype}: casting 'same_kind' does not convert "
                        f"{result} to that")
    is_alone = len(kinds) == 1 and result == own
    has_columns_type = is_alone and _has_the_bytes_of(kinds[0], own, dtype)
    if target is None:
        return _HostOutput(out, dtype, operator, has_columns_type)
    return _GpuOutput(out, dtype, operator, has_columns_type, target)


def _has_the_bytes_of(kind: str, own: numpy.dtype[Any], out: numpy.dtype[Any]) -> bool:
    """Whether all values of type `own` have the same 8 bytes in an array of type `out` as in a column of this
    kind. A column of integers that are not negative, or of truth values, has those of both int64 and
    uint64."""
    import numpy

    if not out.isnative or not numpy.can_cast(own, out, "safe"):
        return False
    return out.name in (("float64",) if kind == "float64" else ("int64", "uint64"))
