# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Segments of an array on a GPU that is copied to the host part by part: some calls for several segments, and
a call for each segment that is larger than a part."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpfold import _native, arrays
from warpfold.arrays import Elements, elements_of, to_host, view_of
from warpfold.calls import Call, run
from warpfold.columns import changed, in_shape, joined
from warpfold.cuts import Cut, error_of_segment, result_of_segments
from warpfold.element_types import element_bytes
from warpfold.errors import InvalidArgumentError, OutOfRangeError
from warpfold.results import Outcome, Result, result_of
from warpfold.stops import Stop

if TYPE_CHECKING:
    from warpfold.cuts import Lengths


@dataclass(slots=True)
class _Part:
    pieces: Iterator[Elements]  # one that has whole segments, or those that make up one segment
    lengths: int | Lengths  # as in Cut
    is_one: bool  # whether it is one segment


def ask_part_by_part(call: Call, cut: Cut, client: _native.Client, progress: Callable[[int], object] | None,
                     stop: Stop | None) -> Result:
    elements, begin_s = call.elements, time.monotonic()
    pieces, elements.pieces = elements.pieces or iter(()), None
    parts = _parts_of_lengths(cut.lengths, elements.owner) if cut.are_given \
        else _parts_along(cut.lengths, pieces)
    results: list[Result] = []
    sent = segments = 0  # how many elements were sent, and for how many segments there are results

    def tell(more: int, *unused: object) -> None:
        if progress is not None:
            progress(sent * element_bytes(elements.type) + more)

    for part in parts:
        if part.is_one:
            of_part = Elements(elements.type, elements.dtype, elements.way, pieces=part.pieces)
            to_ask = Call(of_part, call.task, call.settings, progress and tell)
            results.append(_ask_for_one(to_ask, segments, cut, client, stop, results))
            segments += 1
        else:
            piece = next(part.pieces)
            answer = client.reduce_segments(
                view_of(piece, elements.type), list(range(len(piece.shape or ()))), part.lengths, None,
                call.task, call.settings.native(), progress and tell, stop)
            results.append(result_of_segments(answer, elements, cut, segments))
            segments += 0 if isinstance(part.lengths, int) else len(part.lengths)
        sent += results[-1].element_count
        tell(0)
    return _joined(results, elements, time.monotonic() - begin_s)


def _ask_for_one(call: Call, segment: int, cut: Cut, client: _native.Client, stop: Stop | None,
                 before: list[Result]) -> Result:
    """The Result of all pieces together, as if it were one of several segments, after those of `before`."""
    try:
        result = result_of(run(call, client, stop), call.elements)
    except (InvalidArgumentError, OutOfRangeError) as error:
        if error.reason not in ("EMPTY_ARRAY", "OVERFLOW"):
            raise
        # No operator has a value: what is raised is the first error of the first one.
        earlier = [one.outcomes[error.fields["operator"]].error for one in before]
        raise next(filter(None, earlier), error_of_segment(segment, error, cut)) from None
    for name, outcome in result.outcomes.items():
        result.outcomes[name] = changed(outcome, lambda one: in_shape(one, (1,))) if outcome.error is None \
            else Outcome(None, error=error_of_segment(segment, outcome.error, cut))
    return result


def _joined(results: list[Result], elements: Elements, total_s: float) -> Result:
    """The Result of all parts, which were reduced one after another."""
    queue, receive, copy, kernel = map(sum, zip(*(one.timings[1:] for one in results), strict=True))
    outcomes = {name: joined([one.outcomes[name] for one in results]) for name in results[0].outcomes}
    return Result(outcomes, sum(one.element_count for one in results), results[-1].device,
                  (total_s, queue, receive, copy, kernel), elements)


def _parts_along(lengths: int | Lengths, pieces: Iterator[Elements]) -> Iterator[_Part]:
    """For an array of rows, which was cut into these pieces."""
    length = lengths if isinstance(lengths, int) else 0
    for piece in pieces:
        is_one = 0 < math.prod(piece.shape or ()) < length
        yield _Part(_of_one_row(piece, pieces, length) if is_one else iter((piece,)), lengths, is_one)


def _of_one_row(first: Elements, others: Iterator[Elements], length: int) -> Iterator[Elements]:
    for piece in itertools.chain((first,), others):
        yield piece
        length -= math.prod(piece.shape or ())
        if length <= 0:
            return


def _parts_of_lengths(lengths: int | Lengths, array: Any) -> Iterator[_Part]:
    """For an array of one dimension, whose segments have these lengths."""
    assert not isinstance(lengths, int)
    most = arrays.PIECE_BYTES // 8  # no element is larger than 8 bytes
    ends = [0, *map(int, lengths.cumsum())]
    at = 0
    while at < len(lengths) or at == 0:
        # Segments as long as they fit, and at least one.
        after = at
        while after < len(lengths) and ends[after + 1] <= ends[at] + most:
            after += 1
        is_one = after == at < len(lengths)
        after = max(after, at + is_one)
        yield _Part(_pieces_of(array, ends[at], ends[after], most), lengths[at:after], is_one)
        at = max(after, 1)


def _pieces_of(array: Any, begin: int, end: int, most: int) -> Iterator[Elements]:
    for at in range(begin, max(end, begin + 1), most):
        yield elements_of(to_host(array[at:min(at + most, end)]), None)
