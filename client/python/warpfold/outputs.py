# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""out=: arrays of the caller that take results, which the server writes there itself if it can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpfold import _native
from warpfold.results import check_fits, dtype_of_column

if TYPE_CHECKING:
    import numpy

    from warpfold.arrays import Reference
    from warpfold.calls import Call
    from warpfold.memory import Memory


@dataclass(slots=True)
class Output:
    """An array that takes the result of one operator."""

    array: numpy.ndarray[Any, Any]
    operator: str
    has_columns_type: bool  # whether the values in it have the bytes that the server writes

    def find_place(self, array: Any, view: _native.View | None, memory: Memory | None) -> Reference | None:
        """Where the server can write what it computes from `array` along axes; None if it must send it.

        view: where the array lies, if that is known.
        """
        if memory is None or not self.has_columns_type:
            return None
        place = memory.place_of(self.array)
        # The server writes values while it still reads elements.
        return None if place is None or _may_overlap(self.array, array, view) else place

    def filled(self, values: Any) -> numpy.ndarray[Any, Any]:
        """The array with these values, which the server has sent. OutOfRangeError for integers that do not
        fit."""
        import numpy

        values, kind = numpy.asarray(values), self.array.dtype
        if not numpy.can_cast(values.dtype, kind, "safe"):
            check_fits(values, kind, self.operator, f"out, an array of {kind}")
        numpy.copyto(self.array, values, casting="same_kind")
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


def check_output(out: Any) -> None:
    """TypeError or ValueError for an `out` that cannot take any result."""
    if out is None:
        return
    import numpy

    if not isinstance(out, numpy.ndarray):
        raise TypeError(f"out must be a NumPy array, not {type(out).__name__}")
    if isinstance(out, numpy.ma.MaskedArray):
        raise TypeError("out must be a NumPy array without a mask")
    if not out.flags.writeable:
        raise ValueError("out must be writeable: this array is read-only")


def output_for(out: numpy.ndarray[Any, Any], shape: tuple[int, ...], operator: str, call: Call,
               answered: numpy.dtype[Any] | None) -> Output:
    """TypeError or ValueError unless `out` has the result's shape, and a type to which it can be cast.

    answered: the result's type, if the caller has named it.
    """
    import numpy

    if out.shape != shape:
        raise ValueError(f"out must have the shape of the result, {shape}, not {out.shape}")
    kinds = _native.Client.column_kinds(call.task)
    own = dtype_of_column(operator, kinds[0], call.elements)
    result = own if answered is None else answered
    if not numpy.can_cast(result, out.dtype, "same_kind"):
        raise TypeError(f"out cannot be an array of {out.dtype}: casting 'same_kind' does not convert "
                        f"{result} to that")
    is_alone = len(kinds) == 1 and result == own
    return Output(out, operator, is_alone and _has_the_bytes_of(kinds[0], own, out.dtype))


def _has_the_bytes_of(kind: str, own: numpy.dtype[Any], out: numpy.dtype[Any]) -> bool:
    """Whether all values of type `own` have the same 8 bytes in an array of type `out` as in a column of this
    kind. A column of integers that are not negative, or of truth values, has those of both int64 and
    uint64."""
    import numpy

    if not out.isnative or not numpy.can_cast(own, out, "safe"):
        return False
    return out.name in (("float64",) if kind == "float64" else ("int64", "uint64"))
