# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Segments of given lengths: lengths= and offsets= are checked before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpfold.arrays import Elements
from warpfold.cuts import Cut
from warpfold.mapped import home_of
from warpfold.masks import refuse_mask_of, refuse_masked, refuse_masks_in
from warpfold.options import whole

if TYPE_CHECKING:
    import numpy

    from warpfold.cuts import Lengths

    Integers = numpy.ndarray[Any, numpy.dtype[numpy.integer[Any]]]


def check_one_is_given(lengths: Any, offsets: Any) -> None:
    if (lengths is None) == (offsets is None):
        raise TypeError("segments are given by lengths= or by offsets=: pass "
                        f"{'one of them' if lengths is None else 'only one of them'}")


def cut_by(elements: Elements, lengths: Any, offsets: Any) -> Cut:
    """From one of the two. TypeError for an array without dimensions of its own and for what are no integers,
    ValueError unless it has one dimension, and all of its elements are in segments."""
    if elements.shape is None or not elements.is_array:
        raise TypeError("segments need an array: pieces have no length that is known before they come")
    if len(elements.shape) != 1:
        raise ValueError(f"segments are of an array of one dimension, not of the shape {elements.shape}: "
                         "pass array.reshape(-1), or axis= to reduce()")
    count = elements.shape[0]
    each = _of_lengths(_integers("lengths", lengths, count), count) if offsets is None \
        else _of_offsets(_integers("offsets", offsets, count), count)
    return Cut(each, each.shape, [0], is_in_place=True, are_given=True)


def _integers(name: str, values: Any, count: int) -> Integers:
    """An array of one dimension."""
    import numpy

    refuse_masked(values)
    refuse_mask_of(values, getattr(values, "__array_interface__", None))
    if isinstance(values, (list, tuple)):
        return _of_list(name, values, count)
    array = numpy.asarray(values)
    if array.dtype.kind not in "iu":
        what = f"an array of {array.dtype}" if array.ndim else repr(values)
        raise TypeError(f"{name} must be integers, in an array or a list, not {what:.100}")
    if array.ndim == 0:
        raise TypeError(f"{name} must be an array or a list, not {values!r}: to reduce rows of one length, "
                        "pass array.reshape(-1, length) and axis=1 to reduce()")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not the shape {array.shape}")
    if not array.flags.owndata:
        home_of(array).asked().check()  # to read what a file no longer has would end the process
    return array


def _of_list(name: str, values: list[Any] | tuple[Any, ...], count: int) -> Integers:
    """Names the first item that cannot be right. NumPy would make numbers of bools that are among integers,
    and floats or objects of integers that no type has together."""
    import numpy

    if not {int}.issuperset(map(type, values)):
        refuse_masks_in(values)
        values = [whole(f"{name}[{at}]", one) for at, one in enumerate(values)]
    try:
        return numpy.asarray(values, "int64")
    except OverflowError:
        at = next(at for at, one in enumerate(values) if not -2**63 <= one < 2**63)
        raise ValueError(f"{name}[{at}] does not fit int64, and the array has {count} elements") from None


def _of_lengths(lengths: Integers, count: int) -> Lengths:
    import numpy

    for at in numpy.flatnonzero((lengths < 0) | (lengths > count))[:1]:
        what = "negative" if lengths[at] < 0 else f"more than the array's {count} elements"
        raise ValueError(f"lengths[{at}] is {lengths[at]}, which is {what}")
    each = lengths.astype("uint64")
    # In two halves, since the sum may need more than 64 bits.
    total = (int((each >> numpy.uint64(32)).sum()) << 32) + int((each & numpy.uint64(2**32 - 1)).sum())
    if total != count:
        raise ValueError(f"the lengths add up to {total}, and the array has {count} elements")
    return each


def _of_offsets(offsets: Integers, count: int) -> Lengths:
    import numpy

    if offsets.size == 0:
        raise ValueError("offsets are one more than there are segments, and at least [0]")
    for at in numpy.flatnonzero(offsets[1:] < offsets[:-1])[:1]:
        raise ValueError(f"offsets[{at + 1}] is {offsets[at + 1]}, which is less than the one before it, "
                         f"{offsets[at]}")
    if (int(offsets[0]), int(offsets[-1])) != (0, count):
        raise ValueError(f"offsets must go from 0 to the array's {count} elements, not from {offsets[0]} to "
                         f"{offsets[-1]}: of a part, pass array[offsets[0]:offsets[-1]] and offsets - "
                         "offsets[0]")
    return numpy.diff(offsets.astype("uint64"))
