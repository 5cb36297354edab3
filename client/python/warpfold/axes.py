# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions along axes: segments of the array with those axes moved behind all others."""

from __future__ import annotations

import itertools
import math
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

from warpfold import _native
from warpfold.arrays import Elements, Reference, view_of
from warpfold.calls import Call, next_piece, run, settings_of, task_of
from warpfold.element_types import element_bytes
from warpfold.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, WarpfoldError
from warpfold.progress import Meter
from warpfold.results import column_of, each, value_of
from warpfold.stops import Stop

# How long to wait for the last write of a call that failed. A device that takes longer counts as lost soon.
_WRITES_AT_MOST_S = 10.0

Axes = SupportsIndex | tuple[SupportsIndex, ...]
Axis = Axes | None


@dataclass(slots=True)
class Cut:
    """How to split an array with these dimensions along these axes."""

    dimensions: tuple[int, ...]
    axes: tuple[int, ...]

    def order(self) -> list[int]:
        """The dimensions with the axes after all others: segments are then consecutive."""
        others = (at for at in range(len(self.dimensions)) if at not in self.axes)
        return [*others, *self.axes]

    def order_in_view(self, elements: Elements) -> list[int]:
        """The same for the dimensions that the view has."""
        if not elements.is_squeezed:
            return self.order()
        there = [at for at, length in enumerate(self.dimensions) if length != 1]
        return [there.index(at) for at in self.order() if self.dimensions[at] != 1]

    def length(self) -> int:
        return math.prod(self.dimensions[at] for at in self.axes)

    def count(self) -> int:
        return math.prod(self.shape(True))

    def asked(self) -> tuple[int, int]:
        """The length and the count of the segments that the server reduces. Segments without elements all
        have the same value: it reduces one of them. Without segments, any length will do."""
        length, count = self.length(), self.count()
        return (length if count > 0 else min(length, 1)), (count if length > 0 else min(count, 1))

    def shape(self, keepdims: bool) -> tuple[int, ...]:
        """The shape of the result."""
        if keepdims:
            return tuple(1 if at in self.axes else length for at, length in enumerate(self.dimensions))
        return tuple(length for at, length in enumerate(self.dimensions) if at not in self.axes)


# NumPy accepts the axes 0 and -1 of an array without dimensions for these operators, and for no others.
_OF_SCALARS = frozenset({"sum", "product", "min", "max", "argmin", "argmax", "any", "all", "count_nonzero"})
_WITHOUT_IDENTITY = frozenset({"min", "max", "minmax", "argmin", "argmax", "first", "last", "describe"})


def cut_along(operator_name: str, elements: Elements, axis: Axes) -> Cut:
    """Raises what NumPy raises for axes that do not exist, TypeError for an array that has no axes."""
    import numpy

    if elements.shape is None or not elements.is_array:
        raise TypeError("axis= needs an array: pieces have no axes")
    dimensions = len(elements.shape)
    named = [_axis_named(one) for one in (axis if isinstance(axis, tuple) else (axis,))]
    is_tuple = isinstance(axis, tuple)
    if dimensions == 0 and operator_name in _OF_SCALARS and not is_tuple and named[0] in (0, -1):
        named = []
    axes = []
    for at in named:
        if not -dimensions <= at < dimensions:
            # NumPy 1.24 has it at its top.
            raise getattr(numpy, "exceptions", numpy).AxisError(at, dimensions)
        axes.append(at % dimensions)
    if len(set(axes)) < len(axes):
        raise ValueError("duplicate value in 'axis'")
    cut = Cut(elements.shape, tuple(sorted(axes)))
    if operator_name in _WITHOUT_IDENTITY and cut.length() == cut.count() == 0:
        # There is no segment for which the server could report this.
        raise InvalidArgumentError(_native.text_of_no_value(operator_name), "EMPTY_ARRAY",
                                   {"operator": operator_name})
    return cut


def _axis_named(axis: SupportsIndex) -> int:
    if isinstance(axis, bool):
        raise TypeError("an axis is an integer, not a bool")
    return operator.index(axis)


def run_along(operator_name: str, call: Call, cut: Cut, client: _native.Client, stop: Stop | None = None,
              place: Reference | None = None) -> Any:
    """Blocks until the values are there, one for each segment, as warpfold.calls.run: see column_of. None if
    the server has written them to `place`."""
    is_of_nothing = cut.length() == 0
    if is_of_nothing:
        place = None  # the server reduces only one of them
    if call.progress is None:
        values = _ask(operator_name, call, cut, client, None, stop, place)
    else:
        with Meter(call.progress, call.elements.bytes_to_send) as meter:
            values = _ask(operator_name, call, cut, client, meter.tell, stop, place)
            meter.finish()
    # MemoryError or ValueError, NumPy's, if there are more values than memory can hold.
    return each(lambda one: one.repeat(cut.count()), values) if is_of_nothing and values is not None \
        else values


def _ask(operator_name: str, call: Call, cut: Cut, client: _native.Client,
         progress: Callable[[int], object] | None, stop: Stop | None, place: Reference | None) -> Any:
    elements = call.elements
    is_in_place = cut.order() == list(range(len(cut.dimensions)))
    if not is_in_place and elements.view is None:
        raise ValueError("an array that is not in the host's memory is reduced along its last axes only")
    reference = elements.reference
    if reference is not None and is_in_place:
        try:
            return _values(operator_name, elements, client, place, lambda to: (
                client.reduce_segments_reference(reference.token, reference.byte_offset, *cut.asked(), to,
                                                 call.task, call.settings.native(), stop)))
        except NotFoundError:
            if elements.way == "resident":
                raise
    if reference is not None:
        elements.send_instead()
    if elements.view is None:
        return _ask_part_by_part(operator_name, call, cut, client, progress, stop)
    try:
        view = elements.view
        return _values(operator_name, elements, client, place, lambda to: client.reduce_segments(
            view, cut.order_in_view(elements), *cut.asked(), to, call.task, call.settings.native(), progress,
            stop))
    finally:
        elements.check_mapping()  # whose error says more than that the system could not read


def _values(operator_name: str, elements: Elements, client: _native.Client, place: Reference | None,
            ask: Callable[[_native.Place], _native.Columns]) -> Any:
    """None if the server has written the values to `place`."""
    if place is not None:
        try:
            ask((place.token, place.byte_offset))
            return None
        except NotFoundError:
            # A new server does not know that memory. Whether it knows the array shows when it is asked again.
            pass
        except BaseException:
            if place.on_gpu:
                _await_last_write(client, place)
            raise
    return column_of(operator_name, ask(None), elements)


def _await_last_write(client: _native.Client, place: Reference) -> None:
    """Waits until the server no longer writes there for a call that has failed: the library that has this
    memory of a GPU may soon give it to another array. Until then the server rejects a call that names the
    place."""
    import numpy

    one, task = _native.View(numpy.zeros(1, "int64")), task_of("int64", ("sum",))
    end_s = time.monotonic() + _WRITES_AT_MOST_S
    while (left_s := end_s - time.monotonic()) > 0:
        try:
            client.reduce_segments(one, [0], 1, 1, (place.token, place.byte_offset), task,
                                   settings_of({"timeout": left_s}).native(), None, None)
            return
        except ResourceExhaustedError:
            continue  # it has waited for as long as the server asked for
        except (WarpfoldError, RuntimeError):
            return  # the server has ended, its device is lost, or the client was closed: see the first error


def _ask_part_by_part(operator_name: str, call: Call, cut: Cut, client: _native.Client,
                      progress: Callable[[int], object] | None, stop: Stop | None) -> Any:
    """For a staged array. Each part has whole segments, or is one of several that make up a segment."""
    import numpy

    elements = call.elements
    pieces, elements.pieces = elements.pieces or iter(()), None
    length, count_asked = cut.asked()
    values: list[Any] = []
    sent = 0

    def tell(more: int, *unused: object) -> None:
        if progress is not None:
            progress(sent + more)

    while (piece := next_piece(pieces, elements, stop)) is not None:
        count = math.prod(piece.shape or ())
        if 0 < count < length:
            segment = Elements(elements.type, elements.dtype, elements.way,
                               pieces=_of_one_segment(piece, pieces, length))
            answer = run(Call(segment, call.task, call.settings, progress and tell), client, stop)
            values.append(each(lambda one: numpy.asarray(one).reshape(1), value_of(answer[0][0], elements)))
            length_sent = length
        else:
            dimensions = list(range(len(piece.shape or ())))
            columns = client.reduce_segments(
                view_of(piece, elements.type), dimensions, length, count // length if length else count_asked,
                None, call.task, call.settings.native(), progress and tell, stop)
            values.append(column_of(operator_name, columns, elements))
            length_sent = count
        sent += length_sent * element_bytes(elements.type)
    tell(0)
    if isinstance(values[0], tuple):
        return type(values[0])(*map(numpy.concatenate, zip(*values, strict=True)))
    return numpy.concatenate(values)


def _of_one_segment(first: Elements, others: Iterator[Elements], length: int) -> Iterator[Elements]:
    for piece in itertools.chain((first,), others):
        yield piece
        length -= math.prod(piece.shape or ())
        if length <= 0:
            return
