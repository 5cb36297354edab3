# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""How an array is split into segments, and the Result of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpfold import _native
from warpfold.arrays import Elements
from warpfold.columns import outcome_of_columns
from warpfold.errors import WarpfoldError, from_status
from warpfold.results import Outcome, Result

if TYPE_CHECKING:
    import numpy

    Lengths = numpy.ndarray[Any, numpy.dtype[numpy.uint64]]


@dataclass(slots=True)
class Cut:
    """How to split an array into segments, each of which has results of its own."""

    lengths: int | Lengths  # of all segments, or of each; if it is that of all, it is at least 1
    shape: tuple[int, ...]  # of the results
    order: list[int]  # of the view's dimensions, such that the segments are consecutive
    is_in_place: bool  # whether the array has that order
    repeats: int = 1  # how many segments the only one stands for, since all are the same
    are_given: bool = False  # the caller has given the lengths, and so errors name segments
    # Of operators without a value, although there is no segment for which the server could report it.
    errors: dict[str, WarpfoldError] = field(default_factory=dict)


def result_of_segments(answer: _native.SegmentsAnswer, elements: Elements, cut: Cut, first_segment: int = 0,
                       is_written: bool = False) -> Result:
    """The Result, whose values lie one after another in one dimension.

    first_segment: the number of the first one, if the answer is that for a part of the array.
    is_written: the server has written the values elsewhere, and outcomes have none.
    """
    raw, element_count, device, seconds = answer
    outcomes = {}
    for operator, columns, failure in raw:
        if failure is not None:
            at, parts = failure
            error = error_of_segment(first_segment + at, from_status(*parts), cut)
            outcomes[operator] = Outcome(None, error=error)
        else:
            outcomes[operator] = Outcome(None) if is_written \
                else outcome_of_columns(operator, columns, elements)
    return Result(outcomes, element_count, device, seconds, elements)


def error_of_segment(segment: int, error: WarpfoldError, cut: Cut) -> WarpfoldError:
    """The error of one segment, which it names if the caller has numbered them by giving their lengths."""
    if not cut.are_given:
        return error
    return type(error)(f"segment {segment}: {error.message}", error.reason,
                       {**error.fields, "segment": str(segment)})
