# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of an array, for programs that split it themselves, over processes and machines (as warpfold.dask
does).

Parts are reduced anywhere, at any time; their states, merged in array order, give a value with the same bits
as one call over the whole array. All parts but the last must have a multiple of cut_elements(...) elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from warpfold import _native
from warpfold.arrays import Elements
from warpfold.calls import (
    CallOptions,
    NanPolicy,
    OverflowPolicy,
    Work,
    check_one_stream,
    elements_for,
    itself,
    progress_of,
    settings_of,
    task_of,
)
from warpfold.docstrings import documented
from warpfold.matrices import matrix_of
from warpfold.options import flag, operators_of, unsigned, whole
from warpfold.progress import Meter
from warpfold.results import Result, result_of
from warpfold.stops import Stop, in_callers_code

if TYPE_CHECKING:
    import numpy

R = TypeVar("R")  # a Result, or an awaitable of one
S = TypeVar("S")  # a PartialState, or an awaitable of one


def cut_elements(element_bytes: int) -> int:
    """The unit in which an array may be split: parts begin at multiples of this number of elements.

    element_bytes: of one element, or of one matrix. ValueError for less than 1.
    """
    element_bytes = whole("element_bytes", element_bytes)
    if element_bytes < 1:
        raise ValueError(f"element_bytes must be at least 1, not {element_bytes}")
    return 1 << max(_native.LEAF_BYTES // element_bytes, 1).bit_length() - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What is computed from an array: the same for all of its parts."""

    type: str
    # NumPy's type for results that are elements. Libraries differ only in the type for bfloat16, whose
    # elements are the same in all of them: it is not part of the question.
    dtype: numpy.dtype[Any] = dataclasses.field(compare=False)
    operators: tuple[str, ...]
    matrix: tuple[int, int] | None = None
    nan: NanPolicy = "propagate"
    overflow: OverflowPolicy | None = None
    ddof: float = 0
    modulus: int | None = None

    def task(self) -> _native.Task:
        return task_of(self.type, self.operators, self.matrix, self.nan, self.overflow, self.modulus,
                       self.ddof)


@dataclasses.dataclass(frozen=True, slots=True)
class PartialState:
    """A range of an array, reduced but not finished. It can be pickled, and merged by any server.

    first_element, element_count: the range, in elements of the whole array.
    data: some hundred bytes, which only servers understand.
    question: what was computed from it, which must be the same for all states that are merged, except for the
        parameters that merge takes.
    """

    first_element: int
    element_count: int
    data: bytes
    question: Question

    def __repr__(self) -> str:
        end = self.first_element + self.element_count
        return (f"<warpfold.PartialState {','.join(self.question.operators)} of {self.question.type} "
                f"[{self.first_element}:{end}], {len(self.data)} bytes>")


@documented
class Parts(Generic[R, S]):
    """The client's methods for parts of arrays."""

    def partial(self, array: Any, operators: Sequence[str], first_element: int = 0, *, matrix: bool = False,
                nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None, ddof: float = 0,
                modulus: int | None = None, **options: Unpack[CallOptions]) -> S:
        """The PartialState of a part of an array.

        array: the part, in the host's memory. If it is not contiguous in row-major order, it is copied as a
            whole.
        first_element: the index of its first element (or matrix) in the whole array: a multiple of
            warpfold.cut_elements of an element's bytes.
        operators: as in reduce.

        A part without a value for an operator, such as an empty part without a minimum, is not an error: the
        whole array may have one.
        """

        def elements_and_question(stop: Stop | None) -> tuple[list[Elements], Question]:
            elements = elements_for(array, options.get("dtype"), stop)
            return [elements], question_of(elements, operators, matrix, nan, overflow, ddof, modulus)

        return self._partial(elements_and_question, first_element, options)

    def merge(self, states: Iterable[PartialState], *, overflow: OverflowPolicy | None = None,
              ddof: float | None = None, timeout: float | None = None, request_id: str = "",
              traceparent: str = "", tracestate: str = "") -> R:
        """The Result of the whole array, or of a range.

        states: of adjacent parts, in array order. For bfloat16, results have the type of the first state.
        overflow, ddof: as in reduce, whatever was given for the parts. None: what was given for all of them.
        request_id, traceparent, tracestate: as in warpfold.calls.CommonOptions, whose other options do not
            apply to states.

        Raises InvalidArgumentError if they are not adjacent, TypeError if they do not answer the same
        question, and ValueError for impossible numbers of elements.
        """
        settings = settings_of({"timeout": timeout, "request_id": request_id, "traceparent": traceparent,
                                "tracestate": tracestate})

        def work(client: _native.Client, stop: Stop | None) -> Result:
            with in_callers_code(stop):
                raw, question = _of_one_question(states, overflow, ddof)
            answer = client.merge(raw, question.task(), settings.native(), stop)
            return result_of(answer, Elements(question.type, question.dtype, "parts"))

        result: R = self._perform(Work(settings, work), itself)
        return result

    def merge_to_state(self, states: Iterable[PartialState], *, overflow: OverflowPolicy | None = None,
                       ddof: float | None = None, timeout: float | None = None, request_id: str = "",
                       traceparent: str = "", tracestate: str = "") -> S:
        """As merge, but not finished: a PartialState, so that many states can be merged in groups, and then
        the groups.

        states: of adjacent parts, in array order.
        overflow, ddof: as in merge; the state then has them.
        request_id, traceparent, tracestate: as in merge.

        Raises what merge raises.
        """
        settings = settings_of({"timeout": timeout, "request_id": request_id, "traceparent": traceparent,
                                "tracestate": tracestate})

        def work(client: _native.Client, stop: Stop | None) -> PartialState:
            with in_callers_code(stop):
                raw, question = _of_one_question(states, overflow, ddof)
            return _state(client.merge_to_state(raw, question.task(), settings.native(), stop), question)

        state: S = self._perform(Work(settings, work), itself)
        return state

    def _partial(self, elements_and_question: Callable[[Stop | None], tuple[list[Elements], Question]],
                 first_element: int, options: CallOptions) -> S:
        """The state of consecutive arrays of the question's type, which are requested where the call
        blocks."""
        first_element = unsigned("first_element", first_element)
        settings = settings_of(options)
        check_one_stream(options, "a part of an array goes on")
        progress = progress_of(options)

        def work(client: _native.Client, stop: Stop | None) -> PartialState:
            pieces, question = elements_and_question(stop)
            views = [_view(piece, question.type) for piece in pieces]
            task = question.task()
            try:
                with Meter(progress, sum(view.nbytes for view in views)) as tell:
                    answer = client.reduce_part(views, first_element, task, settings.native(), tell, stop)
            finally:
                for piece in pieces:
                    piece.check_mapping()
            return _state(answer, question)

        state: S = self._perform(Work(settings, work), itself)
        return state

    def _perform(self, work: Work[Any], finish: Callable[[Any], Any],
                 undo: Callable[[_native.Client, Any], Any] | None = None) -> Any:
        """See warpfold.methods."""
        raise NotImplementedError


def question_of(elements: Elements, operators: Sequence[str], matrix: bool, nan: NanPolicy,
                overflow: OverflowPolicy | None, ddof: float, modulus: int | None) -> Question:
    question = Question(elements.type, elements.dtype, operators_of(operators),
                        matrix_of(elements) if flag("matrix", matrix) else None, nan, overflow, ddof, modulus)
    question.task()  # checks it
    # States of integers, which cannot be NaN, merge whatever the policy was.
    return question if "float" in elements.type else dataclasses.replace(question, nan="propagate")


def _view(piece: Elements, type_name: str) -> _native.View:
    view = piece.view
    if piece.type != type_name:
        raise TypeError(f"a piece of {piece.type} in an array of {type_name}")
    if view is None:
        raise TypeError("a part must be in the host's memory: not an iterator, a file or a GPU's array")
    if view.contiguous:
        return view
    import numpy

    return _native.View(numpy.ndarray(view.nbytes, "uint8", view.copy()))


def _state(answer: _native.State, question: Question) -> PartialState:
    first_element, element_count, data = answer
    return PartialState(first_element, element_count, data, question)


def _of_one_question(states: Iterable[PartialState], overflow: OverflowPolicy | None = None,
                     ddof: float | None = None) -> tuple[list[_native.State], Question]:
    """The states as the extension module takes them, and the question that they all answer. They may differ
    in overflow and ddof, which affect only the final values, if the question names these."""
    states = list(states)
    for state in states:
        if not isinstance(state, PartialState):
            raise TypeError(f"a list of PartialState is merged, not of {type(state).__qualname__}")
        if not isinstance(state.data, bytes):
            raise TypeError(f"data of a state must be bytes, not {type(state.data).__qualname__}")
        if not isinstance(state.question, Question):
            raise TypeError(f"question of a state must be that of another, not {state.question!r}")
    if not states:
        raise ValueError("no state to merge")
    named: dict[str, Any] = {} if ddof is None else {"ddof": ddof}
    if overflow is None and {state.question.overflow for state in states} == {None, "error"}:
        overflow = "error"  # None is the same, where it can be named
    if overflow is not None:
        named["overflow"] = overflow
    question = dataclasses.replace(states[0].question, **named)
    for state in states:
        if state.question != question and dataclasses.replace(state.question, **named) != question:
            raise TypeError(f"{state!r} and {states[0]!r} do not answer the same question: they differ in "
                            f"{_difference(state.question, question, named)}")
    raw = [(unsigned("first_element", state.first_element), unsigned("element_count", state.element_count),
            state.data) for state in states]
    return raw, question


def _difference(one: Question, other: Question, named: Mapping[str, Any]) -> str:
    names = [field.name for field in dataclasses.fields(Question)
             if field.compare and field.name not in named
             and getattr(one, field.name) != getattr(other, field.name)]
    remedy = ": pass " + " and ".join(f"{name}=" for name in names) + " to merge" \
        if {*names} <= {"overflow", "ddof"} else ""
    return " and ".join(names) + remedy
