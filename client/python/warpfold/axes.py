# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions along axes: segments of the array with those axes moved behind all others."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from warpfold import _native
from warpfold.arrays import Elements
from warpfold.calls import Call
from warpfold.errors import InvalidArgumentError, NotFoundError
from warpfold.progress import Meter
from warpfold.stops import Stop, away

Axis = int | tuple[int, ...] | None


@dataclass(slots=True)
class Cut:
    """A cut of an array of these dimensions along these axes."""

    dimensions: tuple[int, ...]
    axes: tuple[int, ...]

    def order(self) -> list[int]:
        """The dimensions with the axes behind all others: segments are then consecutive."""
        others = (at for at in range(len(self.dimensions)) if at not in self.axes)
        return [*others, *self.axes]

    def length(self) -> int:
        return math.prod(self.dimensions[at] for at in self.axes)

    def count(self) -> int:
        return math.prod(self.shape(True))

    def shape(self, keepdims: bool) -> tuple[int, ...]:
        """The shape of the answer."""
        if keepdims:
            return tuple(1 if at in self.axes else length for at, length in enumerate(self.dimensions))
        return tuple(length for at, length in enumerate(self.dimensions) if at not in self.axes)


# NumPy takes the axes 0 and -1 of an array without dimensions for these, and for no others.
_OF_SCALARS = frozenset({"sum", "product", "min", "max", "argmin", "argmax", "any", "all", "count_nonzero"})
_WITHOUT_IDENTITY = frozenset({"min", "max", "argmin", "argmax"})


def cut_along(operator_name: str, elements: Elements, axis: int | tuple[int, ...]) -> Cut:
    """Raises what NumPy raises for axes that are not there, TypeError for what has no axes."""
    import numpy

    if elements.shape is None or (elements.view is None and elements.reference is None):
        raise TypeError("axis= needs an array in the host's memory, or one that the server reads: pieces "
                        "have no axes")
    dimensions = len(elements.shape)
    if dimensions == 0 and operator_name in _OF_SCALARS and axis in (0, -1) and not isinstance(axis, bool):
        axis = ()
    axes = []
    for one in axis if isinstance(axis, tuple) else (axis,):
        if isinstance(one, bool):
            raise TypeError("an axis is an integer, not a bool")
        at = operator.index(one)
        if not -dimensions <= at < dimensions:
            # NumPy 1.24 has it at its top.
            raise getattr(numpy, "exceptions", numpy).AxisError(at, dimensions)
        axes.append(at % dimensions)
    if len(set(axes)) < len(axes):
        raise ValueError("duplicate value in 'axis'")
    cut = Cut(elements.shape, tuple(sorted(axes)))
    if operator_name in _WITHOUT_IDENTITY and cut.length() == cut.count() == 0:
        # There is no segment of which the server could say so.
        raise InvalidArgumentError(f"{operator_name} of no elements has no value", "EMPTY_ARRAY",
                                   {"operator": operator_name})
    return cut


def run_along(call: Call, cut: Cut, client: _native.Client, stop: Stop | None = None) \
        -> _native.Columns:
    """Blocks until the columns are there, as warpfold.calls.run."""
    if call.progress is None:
        return _ask(client, call, cut, None, stop)
    view = call.elements.view
    with Meter(call.progress, view.nbytes if view is not None else None) as meter:
        columns = _ask(client, call, cut, meter.tell, stop)
        meter.finish()
    return columns


def _ask(client: _native.Client, call: Call, cut: Cut, progress: Callable[[int], object] | None,
         stop: Stop | None) -> _native.Columns:
    elements = call.elements
    is_in_place = cut.order() == list(range(len(cut.dimensions)))
    if elements.reference is not None and (is_in_place or elements.view is None):
        if not is_in_place:
            raise ValueError("an array that is not in the host's memory is reduced along its last axes only")
        reference = elements.reference
        try:
            return client.reduce_segments_reference(reference.token, reference.byte_offset, cut.length(),
                                                    cut.count(), call.task, call.settings.native(), stop)
        except NotFoundError:
            if elements.view is None:
                raise
    if elements.reference is not None:
        with away(stop):
            elements.send_instead()
    if elements.view is None:
        raise TypeError("axis= needs an array in the host's memory: pieces have no axes")
    try:
        return client.reduce_segments(elements.view, cut.order(), cut.length(), cut.count(), call.task,
                                      call.settings.native(), progress, stop)
    finally:
        elements.check_mapping()  # which says more than that the system could not read
