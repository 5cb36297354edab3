# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions of segments: of the rows along axes (warpfold.axes), and of given lengths (warpfold.lengths)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from warpfold import _native
from warpfold.arrays import Reference
from warpfold.calls import Call, settings_of, task_of
from warpfold.columns import changed, in_shape
from warpfold.cuts import Cut, result_of_segments
from warpfold.errors import NotFoundError, ResourceExhaustedError, WarpfoldError
from warpfold.progress import Meter
from warpfold.results import Outcome, Result, check_any_value
from warpfold.staged import ask_part_by_part
from warpfold.stops import Stop

# How long to wait for the last write of a call that failed. A device that takes longer counts as lost soon.
_WRITES_AT_MOST_S = 10.0


def run_segments(call: Call, cut: Cut, client: _native.Client, stop: Stop | None = None,
                 place: Reference | None = None) -> Result:
    """Blocks until the results are there, as warpfold.calls.run. If no operator has a value, raises the error
    of the first one.

    place: where the server writes the values of the only operator, if it can: its Outcome then has neither a
        value nor an error.
    """
    if not isinstance(cut.lengths, int):
        place = None  # along axes there is one segment then, whose results are repeated
    with Meter(call.progress, call.elements.bytes_to_send) as tell:
        result = _ask(call, cut, client, tell, stop, place)

    def shaped(values: Any) -> Any:
        # MemoryError or ValueError, NumPy's, if there are more values than memory can hold.
        return in_shape(values if cut.repeats == 1 else values.repeat(cut.repeats), cut.shape)

    for name, outcome in result.outcomes.items():
        error = cut.errors.get(name)
        result.outcomes[name] = changed(outcome, shaped) if error is None else Outcome(None, error=error)
    check_any_value(result.outcomes)
    return result


def _ask(call: Call, cut: Cut, client: _native.Client, progress: Callable[[int], object] | None,
         stop: Stop | None, place: Reference | None) -> Result:
    elements = call.elements
    if not cut.is_in_place and elements.view is None:
        raise ValueError("an array that is not in the host's memory is reduced along its last axes only")
    reference = elements.reference
    if reference is not None and cut.is_in_place:
        try:
            return _answered(call, cut, client, place,
                             functools.partial(_refer, call, cut, client, reference, stop))
        except NotFoundError:
            if elements.way == "resident":
                raise
    if reference is not None:
        elements.send_instead()
    if elements.view is None:
        return ask_part_by_part(call, cut, client, progress, stop)
    view = elements.view
    elements.way = "memory" if view.contiguous_in(cut.order) else "copied"
    try:
        return _answered(call, cut, client, place,
                         functools.partial(_send, call, cut, client, view, progress, stop))
    finally:
        elements.check_mapping()  # whose error says more than that the system could not read


# These are no lambdas: the frame of one keeps what it uses, also after it was cleared (warpfold.aio).
def _refer(call: Call, cut: Cut, client: _native.Client, reference: Reference, stop: Stop | None,
           place: _native.Place) -> _native.SegmentsAnswer:
    return client.reduce_segments_reference(
        reference.token, reference.byte_offset, reference.count, cut.lengths, place, call.task,
        call.settings.native(), stop)


def _send(call: Call, cut: Cut, client: _native.Client, view: _native.View,
          progress: Callable[[int], object] | None, stop: Stop | None,
          place: _native.Place) -> _native.SegmentsAnswer:
    return client.reduce_segments(view, cut.order, cut.lengths, place, call.task, call.settings.native(),
                                  progress, stop)


def _answered(call: Call, cut: Cut, client: _native.Client, place: Reference | None,
              ask: Callable[[_native.Place], _native.SegmentsAnswer]) -> Result:
    """The Result of what `ask` returns, which is told where the server writes values."""
    if place is not None:
        try:
            answer = ask((place.token, place.byte_offset))
            return result_of_segments(answer, call.elements, cut, is_written=True)
        except NotFoundError:
            # A new server does not know that memory. Whether it knows the array shows when it is asked again.
            pass
        except BaseException:
            if place.on_gpu:
                _await_last_write(client, place)
            raise
    return result_of_segments(ask(None), call.elements, cut)


def _await_last_write(client: _native.Client, place: Reference) -> None:
    """Waits until the server no longer writes there for a call that has failed: the library that has this
    memory of a GPU may soon give it to another array. Until then the server rejects a call that names the
    place."""
    import numpy

    one, task = _native.View(numpy.zeros(1, "int64")), task_of("int64", ("sum",))
    end_s = time.monotonic() + _WRITES_AT_MOST_S
    while (left_s := end_s - time.monotonic()) > 0:
        try:
            client.reduce_segments(one, [0], 1, (place.token, place.byte_offset), task,
                                   settings_of({"timeout": left_s}).native(), None, None)
            return
        except ResourceExhaustedError:
            continue  # it has waited for as long as the server asked for
        except (WarpfoldError, RuntimeError):
            return  # the server has ended, its device is lost, or the client was closed: see the first error
