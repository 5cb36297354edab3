# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Results as NumPy values.

Sums, products and the like are int64, uint64 or float64, depending on whether the elements are signed,
unsigned or floats (int64 for bool, as in NumPy); elements (min, max, first, ...) have the array's own type;
means, variances and norms are float64; indices and counts are int64.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from warpfold import errors
from warpfold.element_types import in_other_byte_order

if TYPE_CHECKING:
    import numpy

    from warpfold import _native
    from warpfold.arrays import Elements

_ELEMENT = frozenset({"min", "max", "argmin", "argmax", "bit_and", "bit_or", "bit_xor", "first", "last"})
_NUMBERS = frozenset({bool, int, float})
_DOUBLE = frozenset({"mean", "l1_norm", "l2_norm", "variance", "stddev", "logsumexp", "exact_sum"})

Seconds = tuple[float, float, float, float, float]  # those of Timings


class Typed(Protocol):
    """An object that has elements of one type."""

    @property
    def type(self) -> str: ...
    @property
    def dtype(self) -> numpy.dtype[Any]: ...


class MinMax(NamedTuple):
    """The smallest and the largest element, in the array's type."""

    min: Any
    max: Any


class Description(NamedTuple):
    """What `describe` returns."""

    count: Any
    min: Any
    max: Any
    sum: Any
    mean: Any
    variance: Any


WITH_FIELDS: dict[str, type[MinMax] | type[Description]] = {"minmax": MinMax, "describe": Description}


class Subarray(NamedTuple):
    """The largest sum of a contiguous part, which is array[begin:end]; if the sum is NaN, there is no part,
    and both are None, or -1 where results are arrays: along axes, for segments, and with keepdims."""

    sum: Any
    begin: Any
    end: Any


class Timings(NamedTuple):
    """Seconds: for the call as the client sees it, and for the server's phases, which overlap: waiting for a
    slot of the device, from the header to the commit, copying to the device, reducing. For an array on
    several streams, each phase is that of the stream on which it took longest."""

    total: float
    queue: float
    receive: float
    copy: float
    kernel: float


class Outcome(NamedTuple):
    """The outcome of one of several operators.

    value: what the method of that name returns: for argmin and argmax the index. None if there is an error.
    element: argmin and argmax: the element at the index. Along axes and for segments these are arrays, too.
    error: why there is no value.
    """

    value: Any
    element: Any = None
    error: errors.WarpfoldError | None = None


class Result(Mapping[str, Any]):
    """The values of several operators from one pass over the data, by the operators' names.

    result["sum"] is the value, or raises the operator's own error. If no operator has a value, there is no
    Result: reduce itself raises the error of the first one. Along axes, and for segments of given lengths,
    values are arrays, and so are the fields of values with fields. An operator then has no value if one of
    its segments has none: its error is that of the first such segment.

    outcomes: an Outcome for each operator, even for those without a value.
    element_count: of the whole array.
    device: "cpu", "cuda:N" or a list of GPUs and their name, or simt's with its seed, such as "simt:7 (slow:
        kernels executed on the CPU)": all devices of the server that responded, which for an array on several
        streams or servers is the one that merged the states.
    backend: "cpu", "cuda" or "simt".
    timings: a Timings.
    way: how the elements were sent: "memory" (from where they are), "copied" (piece by piece, from an array
        with gaps, or along axes that are not the last ones), "staged" (from a GPU through the host's memory),
        "pieces" (of an iterator or a file), "parts" (whose states were merged); or that they were not sent:
        "shared memory", "gpu memory" and "resident" arrays are read by the server.
    """

    def __init__(self, outcomes: dict[str, Outcome], element_count: int, device: str, seconds: Seconds,
                 elements: Elements):
        self.outcomes = outcomes
        self.element_count = element_count
        self.device = device
        self.way = elements.way
        self._seconds = seconds
        self._type = elements.type

    @property
    def timings(self) -> Timings:
        return Timings(*self._seconds)

    @property
    def backend(self) -> str:
        return self.device.partition(":")[0]

    def __getitem__(self, operator: str) -> Any:
        outcome = self.outcomes[operator]
        if outcome.error is not None:
            # An exception that was raised keeps the frames that it passed through, and everything in them.
            raise copy.copy(outcome.error)
        return outcome.value

    def __contains__(self, operator: object) -> bool:
        return operator in self.outcomes  # even for an operator that has an error

    def __eq__(self, other: object) -> bool:
        """As for mappings, except that an operator without a value is equal to nothing, and raises
        nothing."""
        if other is self:
            return True
        others = other.outcomes.values() if isinstance(other, Result) else ()
        if any(outcome.error is not None for outcome in (*self.outcomes.values(), *others)):
            return False
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.keys() == other.keys() and all(_are_equal(self[name], other[name]) for name in self)

    __hash__ = None  # type: ignore[assignment]  # as for mappings

    def __iter__(self) -> Iterator[str]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={outcome.error if outcome.error is not None else outcome.value!r}"
                           for name, outcome in self.outcomes.items())
        return (f"<warpfold.Result {values}; {self.element_count} {self._type} on {self.device}, "
                f"way {self.way}, {self.timings.total * 1e3:.3g} ms>")


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two values are equal. For arrays Python's == would return an array."""
    import numpy

    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    if isinstance(one, numpy.ndarray) or isinstance(other, numpy.ndarray):
        return numpy.array_equal(one, other)
    return bool(one == other)


def result_of(answer: _native.Answer, elements: Elements) -> Result:
    """The Result of an array as a whole."""
    outcomes, element_count, device, seconds = answer
    return Result({outcome[0]: outcome_of(outcome, elements) for outcome in outcomes}, element_count, device,
                  seconds, elements)


def check_any_value(outcomes: Mapping[str, Outcome]) -> None:
    """Raises the error of the first operator if no operator has a value, as the server does for an array as a
    whole."""
    errors_of_all = [outcome.error for outcome in outcomes.values()]
    first = errors_of_all[0] if errors_of_all else None
    if first is not None and None not in errors_of_all:
        raise copy.copy(first)


def outcome_of(outcome: _native.Outcome, elements: Elements) -> Outcome:
    operator, raw, _, _, error = outcome
    if error is not None:
        return Outcome(None, error=errors.from_status(*error))
    element = number_of(operator, raw, elements) if operator in ("argmin", "argmax") else None
    return Outcome(value_of(outcome, elements), element)


def value_of(outcome: _native.Outcome, elements: Elements) -> Any:
    """The value of an outcome without an error."""
    operator, raw, index, end_index, _ = outcome
    if index is None and type(raw) in _NUMBERS and operator != "max_subarray_sum":
        return number_of(operator, raw, elements)
    import numpy

    if operator in ("argmin", "argmax"):
        return numpy.int64(index or 0)
    if isinstance(raw, dict):
        fields = {name: number_of(name, value, elements) for name, value in raw.items()}
        return WITH_FIELDS[operator](**fields)
    if isinstance(raw, tuple):
        rows, columns, entries = raw
        kind = type_of(operator, type(entries[0]), elements)
        return numpy.array(entries, dtype=kind).reshape(rows, columns)
    begin, end = (None if at is None else numpy.int64(at) for at in (index, end_index))
    return Subarray(number_of(operator, raw, elements), begin, end)


def number_of(operator: str, raw: bool | int | float, elements: Typed) -> Any:
    return type_of(operator, type(raw), elements)(raw)


def type_of(operator: str, kind: type, elements: Typed) -> Any:
    """NumPy's scalar type for a result that arrives as a Python number of type `kind`."""
    return elements.dtype.type if operator in _ELEMENT else _wide_type(operator, kind, elements.type)


@functools.cache
def _wide_type(operator: str, kind: type, element_type: str) -> Any:
    """Cached by keys that hash quickly, which NumPy's dtypes do not."""
    import numpy

    if kind is bool:
        return numpy.bool_
    if kind is float or operator in _DOUBLE:
        return numpy.float64
    if operator in ("count", "count_nonzero"):
        return numpy.int64
    if operator == "max_abs":
        return numpy.uint64
    return numpy.uint64 if element_type.startswith("u") else numpy.int64


def answer_type(element_type: str, dtype: Any) -> numpy.dtype[Any]:
    """The type that is requested for a sum or product of such elements. TypeError for an impossible type."""
    import numpy

    if str(getattr(dtype, "__name__", dtype)) == "bfloat16":
        raise TypeError("dtype= of the answer cannot be bfloat16: pass 'float32', and round that")
    answered: numpy.dtype[Any] = numpy.dtype(dtype)
    kinds = "f" if "float" in element_type else "iuf"
    own = in_other_byte_order(answered)
    if own is not None:
        raise TypeError(f"dtype= of the answer cannot be {answered}, which has the other byte order: pass "
                        f"dtype={own!r}")
    if answered.kind not in kinds or answered.itemsize > 8:
        remedies = {"b": "any() and all() answer bool", "c": "complex numbers are not reduced",
                    "i": "pass array.astype(...)", "u": "pass array.astype(...)"}
        remedy = remedies.get(answered.kind, "it must be a NumPy type of at most 64 bits")
        raise TypeError(f"dtype= of the answer for elements of {element_type} cannot be {answered}: {remedy}")
    return answered


def in_type(values: Any, answered: numpy.dtype[Any], operator: str) -> Any:
    """A value, or an array of values, in another type: rounded, or OutOfRangeError for an integer type."""
    check_fits(values, answered, operator, f"dtype={answered}")
    return values.astype(answered)


def check_fits(values: Any, kind: numpy.dtype[Any], operator: str, what: str) -> None:
    """OutOfRangeError if this is an integer type, and cannot hold all of the values; `what` names it."""
    import numpy

    if kind.kind in "iu" and values.size:
        limits = numpy.iinfo(kind)
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            raise errors.OutOfRangeError(f"the exact value does not fit {what}", "OVERFLOW",
                                         {"operator": operator})


def beyond_64_bits(error: errors.OutOfRangeError, element_type: str, answered: numpy.dtype[Any]) \
        -> errors.OutOfRangeError:
    """The error if there is no value to convert to the requested type."""
    own = "uint64" if element_type.startswith("u") else "int64"
    if answered.kind == "f":
        remedy = "pass array.astype('float64'), whose elements are added in float64"
    elif answered == "uint64" and own == "int64":
        remedy = "pass array.astype('uint64') if no element is negative"
    else:
        remedy = "no type of integers holds it; array.astype('float64') has a rounded one"
    return errors.OutOfRangeError(f"the exact value does not fit {own}, in which it is computed before it is "
                                  f"answered as dtype={answered}: {remedy}", error.reason, error.fields)
