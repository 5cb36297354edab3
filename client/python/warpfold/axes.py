# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions along axes: segments of the array with those axes moved behind all others."""

from __future__ import annotations

import math
import operator
from typing import SupportsIndex

from warpfold import _native
from warpfold.arrays import Elements
from warpfold.cuts import Cut
from warpfold.errors import InvalidArgumentError, WarpfoldError

Axes = SupportsIndex | tuple[SupportsIndex, ...]
Axis = Axes | None

# NumPy accepts the axes 0 and -1 of an array without dimensions for these operators, and for no others.
_OF_SCALARS = frozenset({"sum", "product", "min", "max", "argmin", "argmax", "any", "all", "count_nonzero"})
_WITHOUT_IDENTITY = frozenset({"min", "max", "minmax", "argmin", "argmax", "first", "last", "describe"})


def cut_along(names: tuple[str, ...], elements: Elements, axis: Axes, keepdims: bool) -> Cut:
    """For these operators. Raises what NumPy raises for axes that do not exist, TypeError for an array that
    has no axes."""
    import numpy

    if elements.shape is None or not elements.is_array:
        raise TypeError("axis= needs an array: pieces have no axes")
    axes, shape = _axes_named(names, len(elements.shape), axis), elements.shape
    length = math.prod(shape[at] for at in axes)
    count = math.prod(one for at, one in enumerate(shape) if at not in axes)
    order = [*(at for at in range(len(shape)) if at not in axes), *axes]
    cut = Cut(length, shape_along(shape, axes, keepdims), _order_in_view(order, elements),
              order == list(range(len(shape))))
    if length == 0 and count == 0:
        cut.lengths, cut.errors = numpy.zeros(0, "uint64"), _errors_of_nothing(names)
    elif length == 0:
        # Segments without elements all have the same results: the server reduces one of them.
        cut.lengths, cut.repeats = numpy.zeros(1, "uint64"), count
    elif count == 0:
        cut.lengths = 1  # without segments any length will do, and the server has an upper limit
    return cut


def shape_along(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of the results of an array of this shape."""
    if keepdims:
        return tuple(1 if at in axes else length for at, length in enumerate(shape))
    return tuple(length for at, length in enumerate(shape) if at not in axes)


def _axes_named(names: tuple[str, ...], dimensions: int, axis: Axes) -> tuple[int, ...]:
    """The axes in ascending order."""
    import numpy

    if isinstance(axis, tuple):
        for name in names:
            if name in ("argmin", "argmax"):
                raise TypeError(f"{name} takes one axis: its answer is an index along it")
    named = [_axis_named(one) for one in (axis if isinstance(axis, tuple) else (axis,))]
    if dimensions == 0 and _OF_SCALARS.issuperset(names) and not isinstance(axis, tuple) \
            and named[0] in (0, -1):
        named = []
    axes = []
    for at in named:
        if not -dimensions <= at < dimensions:
            # NumPy 1.24 has it at its top.
            raise getattr(numpy, "exceptions", numpy).AxisError(at, dimensions)
        axes.append(at % dimensions)
    if len(set(axes)) < len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


def _axis_named(axis: SupportsIndex) -> int:
    import numpy

    if isinstance(axis, (bool, numpy.bool_)):
        raise TypeError("an axis is an integer, not a bool")
    return operator.index(axis)


def _order_in_view(order: list[int], elements: Elements) -> list[int]:
    """The same order of the dimensions that the view has."""
    shape = elements.shape or ()
    if not elements.is_squeezed:
        return order
    there = [at for at, length in enumerate(shape) if length != 1]
    return [there.index(at) for at in order if shape[at] != 1]


def _errors_of_nothing(names: tuple[str, ...]) -> dict[str, WarpfoldError]:
    """The errors of the operators that have no value where there are neither segments nor elements. Raises
    the first if there is no other operator."""
    errors: dict[str, WarpfoldError] = {
        name: InvalidArgumentError(_native.text_of_no_value(name), "EMPTY_ARRAY", {"operator": name})
        for name in names if name in _WITHOUT_IDENTITY}
    if len(errors) == len(names):
        raise errors[names[0]]
    return errors
