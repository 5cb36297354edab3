# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Results of many segments: columns, which have a value for each segment, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from warpfold.results import WITH_FIELDS, Outcome, Subarray, type_of

if TYPE_CHECKING:
    import numpy

    from warpfold import _native
    from warpfold.arrays import Elements

# In an array: where a value of a single array is None.
_NO_INDEX = -1


def outcome_of_columns(operator: str, columns: _native.Columns, elements: Elements) -> Outcome:
    """The results of one operator, as its method returns them: an array, for argmin of the indices, or a
    MinMax, a Description or a Subarray of arrays."""
    if operator in ("argmin", "argmax"):
        return Outcome(_indices(columns[1]), _values(operator, columns[0], elements))
    if operator == "max_subarray_sum":
        return Outcome(Subarray(_values(operator, columns[0], elements), *map(_indices, columns[1:])))
    fields = WITH_FIELDS.get(operator)
    if fields is None:
        return Outcome(_values(operator, columns[0], elements))
    return Outcome(fields(*(_values(name, column, elements)
                            for name, column in zip(fields._fields, columns, strict=True))))


def _values(name: str, column: tuple[str, bytes], elements: Elements) -> numpy.ndarray[Any, Any]:
    import numpy

    kind, data = column
    values = numpy.frombuffer(data, "<u8" if kind == "bool" else kind)
    return values.astype(type_of(name, _number_of(kind), elements))


def _indices(column: tuple[str, bytes]) -> numpy.ndarray[Any, Any]:
    import numpy

    # The largest uint64, which says that there is no index, is _NO_INDEX as an int64.
    return numpy.frombuffer(column[1], "<i8").copy()


def dtype_of_column(operator: str, kind: str, elements: Elements) -> numpy.dtype[Any]:
    """NumPy's type for the values of one operator, whose first column has this kind."""
    import numpy

    is_index = operator in ("argmin", "argmax")
    dtype: numpy.dtype[Any] = numpy.dtype(
        numpy.int64 if is_index else type_of(operator, _number_of(kind), elements))
    return dtype


def _number_of(kind: str) -> type:
    """Python's type for numbers of a column's kind."""
    return {"float64": float, "bool": bool}.get(kind, int)


def each(change: Callable[[Any], Any], values: Any) -> Any:
    """The changed values; of a result with fields each field is changed."""
    return type(values)(*map(change, values)) if isinstance(values, tuple) else change(values)


def changed(outcome: Outcome, change: Callable[[Any], Any]) -> Outcome:
    """The outcome with its values changed, if it has any."""
    if outcome.value is None:
        return outcome
    element = None if outcome.element is None else change(outcome.element)
    return Outcome(each(change, outcome.value), element)


def in_shape(values: Any, shape: tuple[int, ...]) -> Any:
    """An array of this shape; a number of NumPy's if it has no dimensions."""
    import numpy

    return numpy.asarray(_NO_INDEX if values is None else values).reshape(shape)[()]


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome for all segments from those for some of them, in their order."""
    import numpy

    for outcome in outcomes:
        if outcome.error is not None:
            return outcome
    values, elements = [outcome.value for outcome in outcomes], [outcome.element for outcome in outcomes]
    element = None if elements[0] is None else numpy.concatenate(elements)
    if not isinstance(values[0], tuple):
        return Outcome(numpy.concatenate(values), element)
    return Outcome(type(values[0])(*map(numpy.concatenate, zip(*values, strict=True))), element)
