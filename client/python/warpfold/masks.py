# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays with masked elements, which are rejected: NumPy itself ignores masks when it makes a plain array of
something."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from warpfold.element_types import name_of

if TYPE_CHECKING:
    import numpy

_NUMBERS = frozenset({bool, int, float})
_LISTS = frozenset({list, tuple})
_NUMPY_2_DIMENSIONS = 64  # NumPy 1 says its own
_FEW = 32

_List = list[Any] | tuple[Any, ...]


def most_dimensions() -> int:
    """The number of dimensions that a NumPy array can have."""
    import numpy

    return getattr(numpy, "MAXDIMS", _NUMPY_2_DIMENSIONS)


def has_mask(array: Any) -> bool:
    """Whether it is a masked array: NumPy's, or a subclass of ndarray by another library, such as astropy."""
    import numpy

    if isinstance(array, numpy.ma.MaskedArray):
        return True
    if not isinstance(array, numpy.ndarray) or array.dtype.names is not None:  # fields may have any name
        return False
    try:
        mask = getattr(array, "mask", None)
    except Exception:  # some property of a subclass
        return False
    # A method is not a mask, and neither is a value that masks nothing.
    return mask is not None and mask is not False and not callable(mask)


def refuse_masked(array: Any) -> None:
    """TypeError for a masked array."""
    if has_mask(array):
        raise TypeError("masked arrays are not supported: pass numpy.asarray(array)[~array.mask], or "
                        "array.filled(value)")


def refuse_mask_of(array: Any, interface: Any) -> None:
    """TypeError if an array's __array_interface__ or __cuda_array_interface__ has a mask."""
    if isinstance(interface, dict) and interface.get("mask") is not None:
        raise TypeError(f"{name_of(array)} has a mask, and masked arrays are not supported: pass the "
                        "elements that count, as an array without a mask")


def refuse_masks_in(items: _List) -> list[numpy.ndarray[Any, Any]]:
    """TypeError if there is such an array in a list, or in a list in it; otherwise the NumPy arrays in them.

    TypeError also if lists are nested more deeply than an array has dimensions. NumPy would never finish with
    a list that contains itself twice.
    """
    # Level by level, up to the level where NumPy stops, too: there may be no last one.
    most = most_dimensions()
    arrays: list[numpy.ndarray[Any, Any]] = []
    level: list[_List] = [items]
    for depth in range(most):
        # For millions of numbers this is all that is done, and it takes half the time that NumPy takes for
        # them.
        kinds = set(map(type, itertools.chain.from_iterable(level)))
        if kinds <= _NUMBERS:
            return arrays
        if kinds <= _LISTS:
            level = list(itertools.chain.from_iterable(level))
        else:
            level = _lists_in(level, kinds, arrays)
        # Each list once, since the same few may come up ever more often; but short rows in few dimensions are
        # faster to look at than to distinguish.
        if level and (depth > 2 or len(level[0]) > _FEW):
            level = list(dict(zip(map(id, level), level, strict=True)).values())
    if level:
        raise TypeError(f"lists nested more than {most} deep, or containing themselves, cannot be arrays: "
                        f"NumPy's have no more than {most} dimensions")
    return arrays


def _lists_in(level: list[_List], kinds: set[type], arrays: list[numpy.ndarray[Any, Any]]) -> list[_List]:
    """The lists in the lists; everything else in them is inspected.

    kinds: the types of the objects in them.
    arrays: receives the arrays in them.
    """
    import numpy

    lists: list[_List] = []
    if kinds == {numpy.ndarray}:
        arrays += itertools.chain.from_iterable(level)
        return lists
    if all(issubclass(kind, numpy.generic) for kind in kinds - _NUMBERS):
        return lists
    for item in itertools.chain.from_iterable(level):
        if isinstance(item, (list, tuple)):
            lists.append(item)
        elif isinstance(item, (numpy.ndarray, numpy.generic)):
            refuse_masked(item)
            if isinstance(item, numpy.ndarray):
                arrays.append(item)
        elif type(item) not in _NUMBERS:
            refuse_mask_of(item, getattr(item, "__array_interface__", None))
    return lists
