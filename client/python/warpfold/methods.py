# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The operators as methods, with NumPy's names and shapes, for the blocking client and for asyncio's.

For each, docs/operators.md says what it returns for empty arrays, NaN, infinities, ties and overflow, and
docs/python.md says what differs from NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from warpfold import _native
from warpfold.arrays import Elements, comes_in_pieces, says_its_type
from warpfold.axes import Axis, cut_along
from warpfold.calls import (
    Call,
    CallOptions,
    CommonOptions,
    NanPolicy,
    OverflowPolicy,
    Settings,
    Work,
    check_one_stream,
    elements_for,
    itself,
    progress_of,
    run,
    settings_of,
    task_of,
)
from warpfold.columns import changed, each, in_shape
from warpfold.docstrings import documented
from warpfold.errors import OutOfRangeError
from warpfold.later import Later
from warpfold.lengths import check_one_is_given, cut_by
from warpfold.matrices import check_kept_as, matrix_of, pair_of, same_of_all
from warpfold.options import flag, number, operators_of
from warpfold.outputs import check_output, output_for
from warpfold.results import Result, answer_type, beyond_64_bits, in_type, result_of, value_of
from warpfold.segments import run_segments
from warpfold.stops import Stop

if TYPE_CHECKING:
    from warpfold import memory
else:
    memory = Later("warpfold.memory")

V = TypeVar("V")  # a value, or an awaitable of one
R = TypeVar("R")  # a Result, or an awaitable of one
A = TypeVar("A")


@documented
class Methods(Generic[V, R]):
    """One method for each operator, and reduce for several at once.

    Every method takes an array as its first argument. Those that return one number take `axis`, `keepdims`
    and `out` as well, and reduce, minmax and describe the first two of these; the docstring of each says what
    it takes, returns and raises.
    """

    _memory: memory.Memory | None = None

    def reduce(self, array: Any, operators: Sequence[str], axis: Axis = None, *, keepdims: bool = False,
               matrix: bool = False, nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None,
               ddof: float = 0, modulus: int | None = None, algorithm: str = "",
               **options: Unpack[CallOptions]) -> R:
        """Computes several operators in one pass over the data: a Result, by the operators' names.

        operators: names of docs/operators.md (warpfold.operator_names()), one to 16, none of them twice.
        axis: as in the methods; values are then arrays, and an operator that has no value at one position of
            the other dimensions has none at all. For argmin and argmax one axis.
        matrix: the last two dimensions are the rows and columns of matrices, which operators reduce entry by
            entry, or multiply. Not along axes.
        ddof: the divisor of variance, stddev and describe is the count minus ddof.
        modulus: matrix_product and affine_compose over integers compute modulo this, 2 to the type's largest
            value.
        algorithm: one of docs/textbook.md, to compare with; its value may have other bits. Not along axes.

        If an operator has no value, because of an overflow or for lack of elements, its error is kept:
        result["sum"] raises it, and other operators have their values. If no operator has one, reduce raises
        the error of the first.
        """
        names = operators_of(operators)
        matrix, keepdims = flag("matrix", matrix), flag("keepdims", keepdims)
        settings = settings_of(options)
        if axis is not None:
            check_one_stream(options, "an array goes along axes on")
            if algorithm:
                raise ValueError("algorithm= cannot be combined with axis=")
        if matrix and (axis is not None or keepdims):
            raise ValueError("matrix= cannot be combined with axis= and keepdims=")

        def work(client: _native.Client, stop: Stop | None) -> Result:
            elements = self._elements(array, options, settings, stop)
            shape = same_of_all(matrix_of, elements) if matrix else None
            check_kept_as(shape, elements)
            task = task_of(elements.type, names, shape, nan, overflow, modulus, ddof, algorithm)
            call = Call(elements, task, settings, progress_of(options))
            if axis is not None:
                return run_segments(call, cut_along(names, elements, axis, keepdims), client, stop)
            kept = _kept_dimensions(elements) if keepdims else None
            result = result_of(run(call, client, stop), elements)
            if kept is not None:
                for name, outcome in result.outcomes.items():
                    result.outcomes[name] = changed(outcome, lambda value: in_shape(value, kept))
            return result

        result: R = self._perform(Work(settings, work), itself)
        return result

    def reduce_segments(self, array: Any, operators: Sequence[str], *, lengths: Any = None,
                        offsets: Any = None, nan: NanPolicy = "propagate",
                        overflow: OverflowPolicy | None = None, ddof: float = 0,
                        **options: Unpack[CallOptions]) -> R:
        """Computes operators over each of the segments into which an array is cut, in one pass over the data:
        a Result, whose values are arrays with a value for each segment. It has the bits that the operator has
        for the segment alone; indices count from the start of the segment.

        array: of one dimension: NumPy's, or whatever has DLPack or a buffer; a kept array.
        operators: names of docs/operators.md, as for reduce, except for those of matrices.
        lengths: how many elements each segment has, in order, which may be 0: integers, in an array or a
            list. Together they are all elements of the array.
        offsets: instead of lengths, where each segment begins, and at the end where the last one ends: one
            more integer than there are segments, from 0 to the number of elements, as Arrow's lists have.
        overflow: None and "error": a sum or product of integers that does not fit is an error. "wrap": it is
            computed modulo 2^bits of the element type.

        A segment without elements has the values of an empty array: a sum of 0, for example. If an operator
        has no value for one of the segments, such as min where there are no elements, or sum where it
        overflows, the error of the first such segment is kept and names it (error.fields["segment"]):
        result["min"] raises it, and other operators have their values. If no operator has any, the error of
        the first is raised. Segments without elements can be left out: lengths[lengths > 0] are segments of
        the same array.
        """
        names = operators_of(operators)
        settings = settings_of(options)
        check_one_is_given(lengths, offsets)
        check_one_stream(options, "segments go on")

        def work(client: _native.Client, stop: Stop | None) -> Result:
            elements = self._elements(array, options, settings, stop)
            check_kept_as(None, elements)
            task = task_of(elements.type, names, None, nan, overflow, ddof=ddof)
            call = Call(elements, task, settings, progress_of(options))
            return run_segments(call, cut_by(elements, lengths, offsets), client, stop)

        result: R = self._perform(Work(settings, work), itself)
        return result

    def sum(self, array: Any, axis: Axis = None, *, dtype: Any = None, out: Any = None,
            keepdims: bool = False, nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None,
            **options: Unpack[CommonOptions]) -> V:
        """The sum: exact for integers, as int64 or uint64; of floats in float64. 0 of an empty array.

        dtype: the result's type: the same sum is converted to it. The sum is rounded to a float type, and
            must fit an integer type (OutOfRangeError). For bytes, files and iterators, dtype is the elements'
            type.
        """
        return self._total("sum", array, axis, keepdims, dtype, out, nan, overflow, options)

    def prod(self, array: Any, axis: Axis = None, *, dtype: Any = None, out: Any = None,
             keepdims: bool = False, nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None,
             **options: Unpack[CommonOptions]) -> V:
        """The product: exact for integers, as int64 or uint64; of floats in float64. 1 of an empty array.

        dtype: the result's type, as for sum.
        """
        return self._total("product", array, axis, keepdims, dtype, out, nan, overflow, options)

    def min(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
            nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The smallest element, in the array's type; -0.0 is below 0.0. Without elements, an error."""
        return self._one("min", array, axis, keepdims, options, out=out, nan=nan)

    def max(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
            nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The largest element, in the array's type; 0.0 is above -0.0. Without elements, an error."""
        return self._one("max", array, axis, keepdims, options, out=out, nan=nan)

    def minmax(self, array: Any, axis: Axis = None, *, keepdims: bool = False, nan: NanPolicy = "propagate",
               **options: Unpack[CallOptions]) -> V:
        """A MinMax: the smallest and the largest element. Without elements, an error.

        axis: as of min; the two fields are then arrays.
        """
        return self._one("minmax", array, axis, keepdims, options, nan=nan)

    def argmin(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
               nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The index of the first smallest element, or of the first NaN, as int64.

        axis: one axis: the result is an array with one index along it for each position in the other
            dimensions. None: the index is in the flattened array. An array on a GPU or kept by a server has
            the last axis only, an iterator or a file none.
        """
        return self._one("argmin", array, axis, keepdims, options, out=out, nan=nan)

    def argmax(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
               nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The index of the first largest element, or of the first NaN, as int64.

        axis: one axis: the result is an array with one index along it for each position in the other
            dimensions. None: the index is in the flattened array. An array on a GPU or kept by a server has
            the last axis only, an iterator or a file none.
        """
        return self._one("argmax", array, axis, keepdims, options, out=out, nan=nan)

    def mean(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
             nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The mean, as float64. Without elements, an error."""
        return self._one("mean", array, axis, keepdims, options, out=out, nan=nan)

    def var(self, array: Any, axis: Axis = None, *, ddof: float = 0, correction: float | None = None,
            out: Any = None, keepdims: bool = False, nan: NanPolicy = "propagate",
            **options: Unpack[CallOptions]) -> V:
        """The variance, as float64: NaN if the count minus `ddof` is not above 0.

        ddof: the divisor is the count minus ddof.
        correction: the array API's name for ddof; give at most one of the two.
        """
        return self._one("variance", array, axis, keepdims, options, out=out, nan=nan,
                         ddof=_ddof(ddof, correction))

    def std(self, array: Any, axis: Axis = None, *, ddof: float = 0, correction: float | None = None,
            out: Any = None, keepdims: bool = False, nan: NanPolicy = "propagate",
            **options: Unpack[CallOptions]) -> V:
        """The standard deviation, as float64: the square root of var.

        ddof: the divisor is the count minus ddof.
        correction: the array API's name for ddof; give at most one of the two.
        """
        return self._one("stddev", array, axis, keepdims, options, out=out, nan=nan,
                         ddof=_ddof(ddof, correction))

    def any(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
            nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """Whether an element differs from 0; NaN does. False of an empty array."""
        return self._one("any", array, axis, keepdims, options, out=out, nan=nan)

    def all(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
            nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """Whether all elements differ from 0; NaN does. True of an empty array."""
        return self._one("all", array, axis, keepdims, options, out=out, nan=nan)

    def count_nonzero(self, array: Any, axis: Axis = None, *, out: Any = None,
                      keepdims: bool = False, nan: NanPolicy = "propagate",
                      **options: Unpack[CallOptions]) -> V:
        """How many elements differ from 0, as int64; NaN does."""
        return self._one("count_nonzero", array, axis, keepdims, options, out=out, nan=nan)

    def norm(self, array: Any, ord: float | None = None, axis: Axis = None, *, out: Any = None,
             keepdims: bool = False, nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The vector norm of the flattened array, as float64 (numpy.linalg.vector_norm).

        ord: 2 or None for the root of the sum of squares, 1 for the sum of magnitudes, inf for the largest
            magnitude.
        """
        order = 2.0 if ord is None else number("ord", ord)
        operator = {2.0: "l2_norm", 1.0: "l1_norm", math.inf: "max_abs"}.get(order)
        if operator is None:
            raise ValueError(f"ord must be 1, 2 or inf, not {ord!r}")
        return self._one(operator, array, axis, keepdims, options, "float64", out=out, nan=nan)

    def max_abs(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
                nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The largest magnitude: uint64 of integers, exact, or float64. 0 of an empty array."""
        return self._one("max_abs", array, axis, keepdims, options, out=out, nan=nan)

    def sum_of_squares(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
                       nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None,
                       **options: Unpack[CallOptions]) -> V:
        """The sum of squares: exact for integers, as int64 or uint64; of floats in float64."""
        return self._one("sum_of_squares", array, axis, keepdims, options, out=out, nan=nan,
                         overflow=overflow)

    def exact_sum(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
                  nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The exact sum of floats, rounded once, as math.fsum does."""
        return self._one("exact_sum", array, axis, keepdims, options, out=out, nan=nan)

    def logsumexp(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
                  nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """log(sum(exp(x))) of floats, without overflow on the way."""
        return self._one("logsumexp", array, axis, keepdims, options, out=out, nan=nan)

    def bit_and(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
                **options: Unpack[CallOptions]) -> V:
        """The bitwise and of integers. All ones of an empty array."""
        return self._one("bit_and", array, axis, keepdims, options, out=out)

    def bit_or(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
               **options: Unpack[CallOptions]) -> V:
        """The bitwise or of integers. 0 of an empty array."""
        return self._one("bit_or", array, axis, keepdims, options, out=out)

    def bit_xor(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
                **options: Unpack[CallOptions]) -> V:
        """The bitwise exclusive or of integers. 0 of an empty array."""
        return self._one("bit_xor", array, axis, keepdims, options, out=out)

    def first(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
              nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The first element; the first that is not NaN, if NaN is ignored."""
        return self._one("first", array, axis, keepdims, options, out=out, nan=nan)

    def last(self, array: Any, axis: Axis = None, *, out: Any = None, keepdims: bool = False,
             nan: NanPolicy = "propagate", **options: Unpack[CallOptions]) -> V:
        """The last element; the last that is not NaN, if NaN is ignored."""
        return self._one("last", array, axis, keepdims, options, out=out, nan=nan)

    def describe(self, array: Any, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False,
                 nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None,
                 **options: Unpack[CallOptions]) -> V:
        """A Description: count, min, max, sum, mean and variance. Without elements, an error.

        axis: as of min; the fields are then arrays.
        """
        return self._one("describe", array, axis, keepdims, options, nan=nan, overflow=overflow, ddof=ddof)

    def max_subarray_sum(self, array: Any, *, nan: NanPolicy = "propagate",
                         **options: Unpack[CallOptions]) -> V:
        """A Subarray: the largest sum of a contiguous, non-empty part, and where that part is."""
        return self._one("max_subarray_sum", array, axis=None, keepdims=False, options=options, nan=nan)

    def matrix_product(self, array: Any, *, modulus: int | None = None,
                       **options: Unpack[CallOptions]) -> V:
        """The product, in order, of square matrices of 32 or 64 bits: those of the last two dimensions.

        Returns a d x d array. Integers modulo 2^bits of their type, or modulo `modulus`.
        """
        return self._of_matrices("matrix_product", array, matrix_of, modulus, options)

    def affine_compose(self, array: Any, *, modulus: int | None = None,
                       **options: Unpack[CallOptions]) -> V:
        """The composition of the maps x -> a x + b, the first one applied first: an array [[a, b]].

        array: pairs (a, b) in the last dimension, of 32 or 64 bits; to be kept they are put as matrices of
            one row: put(array.reshape(-1, 1, 2), matrix=True).
        """
        return self._of_matrices("affine_compose", array, pair_of, modulus, options)

    def _of_matrices(self, operator: str, array: Any, shape_of: Callable[[Elements], tuple[int, int]],
                     modulus: int | None, options: CallOptions) -> V:
        settings = settings_of(options)

        def work(client: _native.Client, stop: Stop | None) -> Any:
            elements = self._elements(array, options, settings, stop)
            shape = same_of_all(shape_of, elements)
            check_kept_as(shape, elements)
            task = task_of(elements.type, (operator,), shape, modulus=modulus)
            answer = run(Call(elements, task, settings, progress_of(options)), client, stop)
            return value_of(answer[0][0], elements)

        value: V = self._perform(Work(settings, work), itself)
        return value

    def _total(self, operator: str, array: Any, axis: Axis, keepdims: bool, dtype: Any, out: Any,
               nan: NanPolicy, overflow: OverflowPolicy | None, options: CommonOptions) -> V:
        """sum or prod, where `dtype` is the result's type, or that of elements which do not carry one."""
        if dtype is not None and not says_its_type(array):
            return self._one(operator, array, axis, keepdims, {**options, "dtype": dtype}, out=out, nan=nan,
                             overflow=overflow)
        if dtype is not None and overflow == "wrap":
            raise ValueError("overflow='wrap' cannot be combined with dtype=")
        return self._one(operator, array, axis, keepdims, options, dtype, out, nan=nan, overflow=overflow)

    def _one(self, operator: str, array: Any, axis: Axis, keepdims: bool, options: Mapping[str, Any],
             dtype: Any = None, out: Any = None, **spec: Any) -> V:
        if axis is None and keepdims is False and dtype is None and out is None and not options \
                and (plain := self._plain(operator, array, spec)) is not None:
            return plain  # type: ignore[no-any-return]
        keepdims = flag("keepdims", keepdims)
        settings = settings_of(options)
        check_output(out)
        if axis is not None:
            check_one_stream(options, "an array goes along axes on")

        def work(client: _native.Client, stop: Stop | None) -> Any:
            elements = self._elements(array, options, settings, stop)
            check_kept_as(None, elements)
            call = Call(elements, task_of(elements.type, (operator,), None, **spec), settings,
                        progress_of(options))
            answered = None if dtype is None else answer_type(elements.type, dtype)
            kept = _kept_dimensions(elements) if axis is None and keepdims else None
            cut = None if axis is None else cut_along((operator,), elements, axis, keepdims)
            output = None if out is None else output_for(out, kept or () if cut is None else cut.shape,
                                                         operator, call, answered)
            place = None if output is None or cut is None or self._memory is None else \
                output.find_place(array, elements.view, self._memory.of_call(settings, stop))
            try:
                value = value_of(run(call, client, stop)[0][0], elements) if cut is None \
                    else run_segments(call, cut, client, stop, place)[operator]
            except OutOfRangeError as error:
                if answered is None:
                    raise
                raise beyond_64_bits(error, elements.type, answered) from None
            if value is None:
                return out
            if answered is not None:
                value = in_type(value, answered, operator)
            if kept is not None:
                value = each(lambda one: in_shape(one, kept), value)
            return value if output is None else output.filled(value)

        value: V = self._perform(Work(settings, work), itself)
        return value

    def _elements(self, array: Any, options: Mapping[str, Any], settings: Settings,
                  stop: Stop | None) -> Elements:
        """Call this on the thread that blocks: an iterator, a file or an array on a GPU may take long to
        yield its first piece."""
        if options.get("streams", 0) > 1 and comes_in_pieces(array):
            check_one_stream(options, "an iterator or a file goes on")
        memory = None if self._memory is None else self._memory.of_call(settings, stop)
        elements = elements_for(array, options.get("dtype"), stop, memory)
        if elements.way == "resident":
            check_one_stream(options, "a kept array is not sent, and has")
        if elements.owner is not None:
            check_one_stream(options, "an array on a GPU is not sent, or goes on")
        return elements

    def _plain(self, operator: str, array: Any, spec: dict[str, Any]) -> Any:
        """See warpfold.plain. None in classes that have no short way."""
        return None

    def _perform(self, work: Work[A], finish: Callable[[A], Any],
                 undo: Callable[[_native.Client, A], Any] | None = None) -> Any:
        """What `finish` makes of the work's result; `undo` gets a result that nobody waits for."""
        raise NotImplementedError


def _kept_dimensions(elements: Elements) -> tuple[int, ...]:
    """The shape of the results of all elements, if the dimensions are kept."""
    if elements.shape is None or not elements.is_array:
        raise TypeError("keepdims= needs an array: pieces have no dimensions")
    return (1,) * len(elements.shape)


def _ddof(ddof: float, correction: float | None) -> float:
    if correction is None:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction
