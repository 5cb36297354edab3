# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Dask arrays, reduced where they are, on many machines:

    total = warpfold.dask.reduce(darray, "sum", ["node1:50051", "node2:50051"]).compute()

Each chunk becomes a partial state on the server nearest its worker, and states are merged in array order: the
value has the same bits as one call over the whole array. docs/python.md says what the plan costs.
"""

from __future__ import annotations

import functools
import math
import re
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import dask
import numpy

from warpfold.arrays import elements_of
from warpfold.calls import DEFAULT_TIMEOUT_S, NanPolicy, OverflowPolicy, settings_of, too_late
from warpfold.client import Client, connect
from warpfold.errors import DeadlineExceededError, ResourceExhaustedError, UnavailableError, WarpfoldError
from warpfold.options import Path, file_path, operators_of, targets_of
from warpfold.partial import PartialState, Question, cut_elements, question_of

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# How many states are merged at a time. They take some 200 KB, and there is one more step only for each 256
# times as many chunks.
MERGED_STATES = 256
# For this long, a server that did not respond, or that was full, is asked only after the others.
_LEFT_OUT_S = 10.0
_FULL_S = 1.0
# How often all servers are asked if none of them responds; if one is full, they are asked until the timeout.
# The pause before they are asked again is doubled each time.
_ROUNDS = 4
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0


class Servers(NamedTuple):
    """The function that a task calls."""

    targets: tuple[str, ...]
    tls: tuple[tuple[str, str], ...]
    timeout: float | None


class Run(NamedTuple):
    """Adjacent elements of one chunk: `length` elements from index `begin` on, in row-major order."""

    chunk: int
    begin: int
    length: int


def reduce(darray: Any, operators: str | Sequence[str], servers: str | Sequence[str], *, matrix: bool = False,
           nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None, ddof: float = 0,
           modulus: int | None = None, timeout: float | None = None,
           tls_ca: Path | None = None, tls_cert: Path | None = None, tls_key: Path | None = None) -> Any:
    """A Delayed of the value of one operator, or of the Result of several.

    darray: a dask.array of NumPy arrays, whose chunks are adjacent elements in row-major order: it is split
        along one dimension, and along those before it into pieces of length 1. For any other array,
        ValueError names the rechunk() that it needs. If chunks do not end at multiples of
        warpfold.cut_elements, the few elements up to the next multiple are reduced with the chunk before: no
        chunk is moved.
    operators: a name of docs/operators.md, or a list of them.
    servers: as for connect. A worker calls those on its own machine (unix:/path, localhost, or its own name
        or address), or else all of them in turn; it calls another one if they are not there, are full, or do
        not respond in half of the time that is left.
    matrix, nan, overflow, ddof, modulus: as in Client.reduce.
    timeout: seconds for each part, and for each merge, over all servers that are asked; None: 3700. While
        there is another server to ask, the current one has half of the time that is left: pass twice the time
        that a part takes. With math.inf, a server that does not respond is waited for without limit.
    tls_ca, tls_cert, tls_key: paths of PEM files on the workers.

    Raises TypeError and ValueError at once for arrays that cannot be reduced; compute() raises subclasses of
    WarpfoldError. If a worker is lost, another one reduces its chunks again; if a server is lost, the others
    take over its chunks. If none responds in four rounds, with 0.1, 0.2 and 0.4 s between them, compute()
    raises UnavailableError; if all are full until the timeout, ResourceExhaustedError.
    """
    names = operators_of([operators] if isinstance(operators, str) else operators)
    settings_of({"timeout": timeout})
    shape, sizes = _cut_of(darray)
    question = question_of(elements_of(numpy.empty((0, *shape[1:]) if shape else 0, darray.dtype), None),
                           names, matrix, nan, overflow, ddof, modulus)
    rows, columns = question.matrix or (1, 1)
    if rows * columns == 0:
        raise ValueError(f"matrices without elements: the shape is {shape}")
    if matrix and any(len(lengths) > 1 for lengths in darray.chunks[-2:]):
        raise ValueError("matrices are cut into several chunks: darray.rechunk({-2: -1, -1: -1}) first")
    files = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key}
    targets = tuple(targets_of(servers))
    tls = tuple((name, file_path(name, path)) for name, path in files.items() if path is not None)
    where = Servers(targets, tls, timeout)
    sizes = [size // (rows * columns) for size in sizes]
    parts = parts_of(sizes, cut_elements(question.dtype.itemsize * rows * columns))
    return _graph(darray, sizes, parts, question, where, isinstance(operators, str))


def parts_of(sizes: Sequence[int], unit: int) -> list[tuple[int, list[Run]]]:
    """The first element of each part, and the runs that it is made of; at least one part.

    A part is a chunk from its first multiple of `unit` on, and the heads of the chunks after it, up to the
    next multiple.
    """
    parts: list[tuple[int, list[Run]]] = []
    begin = 0
    for chunk, size in enumerate(sizes):
        head = min(-begin % unit, size)
        if head:
            parts[-1][1].append(Run(chunk, 0, head))
        if size > head:
            parts.append((begin + head, [Run(chunk, head, size - head)]))
        begin += size
    return parts or [(0, [Run(0, 0, 0)])]  # for an empty array, its first chunk


def _cut_of(darray: Any) -> tuple[tuple[int, ...], list[int]]:
    """The shape, and the chunks' sizes in row-major order of chunks, which is also that of elements."""
    import dask.array

    if not isinstance(darray, dask.array.Array):
        raise TypeError(
            f"a dask.array is reduced, not {type(darray).__module__}.{type(darray).__qualname__}: "
            "warpfold.connect(...).reduce takes other arrays")
    if type(darray._meta) is not numpy.ndarray:
        raise TypeError(f"chunks of {type(darray._meta).__module__}.{type(darray._meta).__qualname__}: only "
                        "NumPy's are reduced; darray.map_blocks(...) turns others into them")
    if any(math.isnan(length) for lengths in darray.chunks for length in lengths):
        raise ValueError("chunks of unknown sizes: call darray.compute_chunk_sizes() first")
    cut = [axis for axis, lengths in enumerate(darray.chunks) if len(lengths) > 1]
    if cut and any(length > 1 for lengths in darray.chunks[:cut[-1]] for length in lengths):
        first = next(axis for axis, lengths in enumerate(darray.chunks) if max(lengths) > 1)
        remedy = ", ".join(f"{axis}: -1" for axis in cut if axis > first)
        raise ValueError(
            f"chunks along dimensions {cut} are not adjacent elements in row-major order, in which "
            f"arrays are reduced: darray.rechunk({{{remedy}}}) first, which moves them")
    sizes = [1]
    for lengths in darray.chunks:
        sizes = [size * length for size in sizes for length in lengths]
    return darray.shape, sizes


def _elements(chunk: Any, size: int, question: Question) -> numpy.ndarray[Any, Any]:
    """A chunk's elements or matrices in a row. Dask trusts what functions say about its chunks; we do not."""
    if type(chunk) not in (numpy.ndarray, numpy.memmap) and not isinstance(chunk, numpy.generic):
        # A masked array's elements do not all count, and other objects need not be elements in a row at all.
        raise TypeError(
            f"a chunk is a {type(chunk).__module__}.{type(chunk).__qualname__}: only NumPy's own arrays are "
            "reduced; darray.map_blocks(...) turns others into them")
    array = numpy.asarray(chunk)
    rows, columns = question.matrix or (1, 1)
    if array.dtype != question.dtype or array.size != size * rows * columns:
        raise ValueError(f"a chunk is {array.size} elements of {array.dtype}, where the array says "
                         f"{size * rows * columns} of {question.dtype}")
    if not array.flags.c_contiguous:
        array = _copied(array)
    return array.reshape(-1) if question.matrix is None else array.reshape(-1, rows, columns)


def _copied(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """A copy in row-major order. NumPy's own copy would end the process if the array is in a mapped file that
    is truncated."""
    elements = elements_of(array, None)
    if elements.view is None:
        raise TypeError("a chunk is not in the host's memory")
    data = elements.view.copy()
    elements.check_mapping()
    return numpy.ndarray(array.shape, array.dtype, data)


def _graph(darray: Any, sizes: list[int], parts: list[tuple[int, list[Run]]], question: Question,
           where: Servers, one: bool) -> Any:
    """The tasks as one layer of a graph: putting together a Delayed for each would take quadratic time."""
    from dask.core import flatten
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    (array,) = dask.optimize(darray)
    chunks = list(flatten(array.__dask_keys__()))
    token = uuid.uuid4().hex
    head, state, merge = (functools.partial(function, question, where)
                          for function in (warpfold_head, warpfold_state, warpfold_merge))
    layer: dict[Any, Any] = {}
    states: list[Any] = []
    for index, (first, (own, *others)) in enumerate(parts):
        for run in others:
            key = (f"warpfold_head-{token}", run.chunk)
            layer[key] = (head, chunks[run.chunk], sizes[run.chunk], run.length)
        heads = [(f"warpfold_head-{token}", run.chunk) for run in others]
        states.append((f"warpfold_state-{token}", index))
        layer[states[-1]] = (state, chunks[own.chunk], sizes[own.chunk], own.begin, heads, first, index)
    level = 0
    while len(states) > MERGED_STATES:
        groups = [states[begin:begin + MERGED_STATES] for begin in range(0, len(states), MERGED_STATES)]
        states = [(f"warpfold_merge-{token}", level, index) for index in range(len(groups))]
        layer.update((key, (merge, group, key[2])) for key, group in zip(states, groups, strict=True))
        level += 1
    value = f"warpfold_value-{token}"
    layer[value] = (functools.partial(warpfold_value, one, where), states)
    return Delayed(value, HighLevelGraph.from_collections(value, layer, dependencies=[array]))


# The tasks, with the names that Dask's pages show.


def warpfold_head(question: Question, where: Servers, chunk: Any, size: int,
                  count: int) -> numpy.ndarray[Any, Any]:
    """A copy: a view would keep, and move, the whole chunk."""
    return _copied(_elements(chunk, size, question)[:count])


def warpfold_state(question: Question, where: Servers, chunk: Any, size: int, begin: int,
                   heads: list[numpy.ndarray[Any, Any]], first: int, index: int) -> PartialState:
    pieces = [elements_of(piece, None) for piece in (_elements(chunk, size, question)[begin:], *heads)]

    def call(client: Client, timeout: float) -> PartialState:
        return client._partial(lambda stop: (pieces, question), first, {"timeout": timeout})

    return _call(where, index, call)


def warpfold_merge(question: Question, where: Servers, states: list[PartialState],
                   index: int) -> PartialState:
    return _call(where, index, lambda client, timeout: client.merge_to_state(states, timeout=timeout))


def warpfold_value(one: bool, where: Servers, states: list[PartialState]) -> Any:
    result = _call(where, 0, lambda client, timeout: client.merge(states, timeout=timeout))
    return next(iter(result.values())) if one else result


# The clients of this process, which keep their connections, and until when each server is asked after all
# others.
_lock = threading.Lock()
_clients: dict[tuple[str, tuple[tuple[str, str], ...]], Client] = {}
_left_out: dict[str, float] = {}


def _call(where: Servers, index: int, call: Callable[[Client, float], T]) -> T:
    """The result from the first server that accepts the call; `index` spreads tasks over servers that are
    equally near."""
    end = time.monotonic() + (DEFAULT_TIMEOUT_S if where.timeout is None else where.timeout)
    pause_s = _FIRST_PAUSE_S
    rounds_left = _ROUNDS
    failures: list[WarpfoldError] = []
    # The servers whose share of the time was over. If no other one is quicker, the timeout is too short for
    # the part, and no server is at fault.
    timed_out: set[str] = set()
    try:
        while True:
            failures.clear()
            targets = _in_order(where.targets, index, time.monotonic())
            for others, target in zip(range(len(targets) - 1, -1, -1), targets, strict=True):
                left_s = end - time.monotonic()
                if left_s <= 0:
                    raise failures[-1] if failures else too_late()
                try:
                    value = call(_client(target, where.tls), left_s / 2 if others else left_s)
                except (UnavailableError, ResourceExhaustedError, DeadlineExceededError) as error:
                    left_out_s = _left_out_s(error)
                    if left_out_s is None:
                        raise
                    failures.append(error)
                    if isinstance(error, DeadlineExceededError):
                        timed_out.add(target)
                    else:
                        _leave_out(target, left_out_s)
                else:
                    for slow in timed_out - {target}:
                        _leave_out(slow, _LEFT_OUT_S)
                    return value
            if not any(isinstance(failure, ResourceExhaustedError) for failure in failures):
                rounds_left -= 1
            if rounds_left == 0 or time.monotonic() + pause_s >= end:
                raise failures[-1]
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    finally:
        # Their tracebacks have this frame, and with it the chunk, which would live until Python's garbage
        # collector looks for cycles.
        failures.clear()


def _left_out_s(error: WarpfoldError) -> float | None:
    """For how long others are asked first; None for an error that others would return, too."""
    if isinstance(error, ResourceExhaustedError):
        return _FULL_S if error.reason in ("TOO_MANY_REDUCTIONS", "TOO_MANY_CALLS") else None
    if isinstance(error, DeadlineExceededError) and error.reason != "DEADLINE":
        return None  # a limit of the server's
    return _LEFT_OUT_S


def _leave_out(target: str, left_out_s: float) -> None:
    with _lock:
        _left_out[target] = time.monotonic() + left_out_s


def _in_order(targets: tuple[str, ...], index: int, now: float) -> list[str]:
    start = index % len(targets)
    names = _own_names()

    def distance(target: str) -> tuple[bool, bool]:
        return _left_out.get(target, 0.0) > now, not is_near(target, names)

    with _lock:
        return sorted(targets[start:] + targets[:start], key=distance)


def is_near(target: str, names: frozenset[str]) -> bool:
    """Whether a server is on the machine that has these names and addresses."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = re.sub("^(dns|ipv4|ipv6):(//.*/)?", "", target.rpartition(":")[0]).strip("[]")
    return host in names or host.startswith("127.")


def _own_names() -> frozenset[str]:
    names = {"localhost", "::1", socket.gethostname()}
    try:
        from distributed import get_worker

        names.add(str(get_worker().host))
    except (ImportError, ValueError, AttributeError):
        pass  # another scheduler's threads or processes
    return frozenset(names)


def _client(target: str, tls: tuple[tuple[str, str], ...]) -> Client:
    with _lock:
        client = _clients.get((target, tls))
        if client is None:
            # The client does not ask a full server again: another one may be idle.
            client = _clients[target, tls] = connect(target, max_attempts=1,
                                                     **dict(tls))  # type: ignore[arg-type]
        return client
