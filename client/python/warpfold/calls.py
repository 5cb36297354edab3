# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""One call: its checked arguments, and how it is run."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar

from warpfold import _native, forks, options
from warpfold.arrays import Elements, comes_in_pieces, elements_of, views_of
from warpfold.errors import DeadlineExceededError, NotFoundError
from warpfold.progress import Meter, Teller
from warpfold.stops import Stop, in_callers_code

if TYPE_CHECKING:
    from warpfold.memory import MemoryOfCall

A = TypeVar("A")
P = TypeVar("P")

NanPolicy = Literal["propagate", "ignore"]
OverflowPolicy = Literal["error", "wrap"]
Progress = Callable[[int, int | None], object] | bool | None


class CommonOptions(TypedDict, total=False):
    """What every method takes.

    timeout: seconds for the whole call, from when the method is called: this includes retries, and waiting
        for an iterator, for a GPU or for a thread of asyncio's client. Then TimeoutError; with 0 at once. The
        caller's code is not interrupted: the error is raised when the iterator has yielded its piece (with
        asyncio it does not wait for that). None: 3700, a little longer than a server lets a call live by
        default. math.inf: no limit.
    streams: how many parts of the array are sent at once, each on its own connection. 0: as many as the
        servers advise. The value has the same bits. An iterator, a file or an array on a GPU uses one stream,
        and so do `axis`, segments, put and partial, and a kept array is not sent: for these, more than one is
        a ValueError. An array of Client.empty accepts more, for the case in which it has to be sent.
    checksum: whether the server checks a CRC32C of the array, if it is sent.
    request_id: appears in the server's log; at most 128 printable ASCII characters.
    traceparent: the caller's place in a trace, as the W3C's Trace Context defines it; its ids appear in the
        server's log. Text in any other form is not sent.
    tracestate: sent with traceparent, as the W3C defines it; at most 512 printable ASCII characters, or it is
        not sent.
    progress: called with the bytes sent so far and those of the whole array (None if nobody knows), some 20
        times a second and at the end, on the calling thread; an exception from it ends the call. It must not
        wait: the array is still read meanwhile, and so neither `timeout` nor a cancelled awaitable ends the
        call before it has returned. True: a tqdm progress bar. None or False: no progress is reported.
    """

    timeout: float | None
    streams: int
    checksum: bool
    request_id: str
    traceparent: str
    tracestate: str
    progress: Progress


class CallOptions(CommonOptions, total=False):
    """What every method takes, with `dtype` as it is for all methods but sum and prod.

    dtype: the element type of bytes, of files and of iterators of bytes or without pieces, such as "float32"
        or "bfloat16", or a NumPy type: numpy.float32, "f4". Bytes are buffers of the formats B, b and c:
        bytes, mmap, and array.array("b"); others carry their type. Pieces of bytes, such as a file's, may end
        inside elements.
    """

    dtype: Any


_SETTINGS = frozenset({"timeout", "streams", "checksum", "request_id", "traceparent", "tracestate"})
_OPTIONS = frozenset(CallOptions.__annotations__)


class Settings:
    """How to call, and until when: the timeout begins when this object is made."""

    __slots__ = ("_end", "_others")

    def __init__(self, timeout: float, others: tuple[int, bool, str, str, str]):
        self._end = time.monotonic() + timeout
        self._others = others

    def left_s(self) -> float:
        return max(self._end - time.monotonic(), 0.0)

    def within(self, most_s: float) -> Settings:
        """The same for a part of the call, which has `most_s` seconds, and no more than are left."""
        return Settings(min(most_s, self.left_s()), self._others)

    def native(self) -> _native.Settings:
        """The client library's settings, whose timeout runs from now. DeadlineExceededError if no time is
        left."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise too_late()
        return _native.Settings(left_s, *self._others)


@dataclass(slots=True)
class Work(Generic[A]):
    """A call that can be made. run(client, stop) makes it and blocks. `stop` lets another thread end it, and
    is None if the caller's own thread runs it."""

    settings: Settings
    run: Callable[[_native.Client, Stop | None], A]


@dataclass(slots=True)
class Call:
    """An array, what to compute from it, and how."""

    elements: Elements
    task: _native.Task
    settings: Settings
    progress: Teller | None


def task_of(type_name: str, operators: tuple[str, ...], matrix: tuple[int, int] | None = None,
            nan: NanPolicy = "propagate", overflow: OverflowPolicy | None = None, modulus: int | None = None,
            ddof: float = 0, algorithm: str = "") -> _native.Task:
    """TypeError and ValueError for options of another type, or with values that they cannot have."""
    options.choice("nan", nan, "propagate", "ignore")
    if overflow is not None:
        options.choice("overflow", overflow, "error", "wrap")
    if modulus is not None:
        modulus = options.whole("modulus", modulus)
    return _task(type_name, operators, matrix, nan, overflow, modulus, options.number("ddof", ddof),
                 options.text("algorithm", algorithm))


@functools.lru_cache(maxsize=256)
def _task(type_name: str, operators: tuple[str, ...], matrix: tuple[int, int] | None, nan: NanPolicy,
          overflow: OverflowPolicy | None, modulus: int | None, ddof: float, algorithm: str) -> _native.Task:
    if modulus is not None and not 0 <= modulus < 2**64:
        raise ValueError(f"modulus must be 2 to the largest value of the elements' type, not {modulus}")
    if not 0 <= ddof < math.inf:
        raise ValueError(f"ddof must be a finite number that is not negative, not {ddof}")
    if matrix is not None and max(matrix) >= 2**32:
        raise ValueError(f"matrices of {matrix[0]} x {matrix[1]} are too large")
    # A policy that the caller names is sent as it is: operators that always wrap are not computed with
    # "error".
    wrap = None if overflow is None else overflow == "wrap"
    return _native.Task(type_name, list(operators), matrix, wrap, nan == "ignore", modulus, ddof, algorithm)


# Seconds, as in the client library.
DEFAULT_TIMEOUT_S = 3700.0
_DEFAULTS = (0, False, "", "", "")


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Rejects, by name, options that no method takes, and values of another type."""
    if not given:
        return Settings(DEFAULT_TIMEOUT_S, _DEFAULTS)
    if "where" in given:
        raise NotImplementedError("where= does not exist yet: pass array[mask]")
    unknown = given.keys() - _OPTIONS
    if unknown:
        raise TypeError(f"this method has no argument {', '.join(sorted(unknown))}: besides its own, which "
                        f"help() lists, there are the options {', '.join(sorted(_OPTIONS))}")
    progress_of(given)
    if given.keys().isdisjoint(_SETTINGS):
        return Settings(DEFAULT_TIMEOUT_S, _DEFAULTS)
    timeout = given.get("timeout")
    if timeout is None:
        timeout = DEFAULT_TIMEOUT_S
    else:
        timeout = options.number("timeout", timeout)
        if not timeout >= 0:
            raise ValueError(f"timeout must be seconds, or None, not {timeout!r}")
        if timeout == 0:
            raise DeadlineExceededError("timeout=0 leaves no time for a call", "DEADLINE")
    streams = options.whole("streams", given.get("streams", 0))
    if not 0 <= streams < 2**31:
        raise ValueError(f"streams must be 0 or the number of streams, not {streams}")
    return Settings(timeout, (streams, options.flag("checksum", given.get("checksum", False)),
                              options.text("request_id", given.get("request_id", "")),
                              options.text("traceparent", given.get("traceparent", "")),
                              options.text("tracestate", given.get("tracestate", ""))))


def too_late() -> DeadlineExceededError:
    return DeadlineExceededError("the timeout is over", "DEADLINE")


def check_one_stream(given: Mapping[str, Any], what: str) -> None:
    """ValueError if more than one stream was requested for something that can use only one."""
    if given.get("streams", 0) > 1:
        raise ValueError(f"{what} one stream, not streams={given['streams']}")


def progress_of(given: Mapping[str, Any]) -> Teller | None:
    progress = given.get("progress")
    if progress is None or progress is False:
        return None
    if progress is not True and not callable(progress):
        raise TypeError(f"progress must be a function of two numbers, or True, not {progress!r}")
    return progress  # type: ignore[no-any-return]


def itself(answer: Any) -> Any:
    """Finishes most results: they stay as they are."""
    return answer


def run(call: Call, client: _native.Client, stop: Stop | None = None) -> _native.Answer:
    """Blocks until the result is there. Signal handlers run meanwhile if this is the main thread."""
    with Meter(call.progress, call.elements.bytes_to_send) as tell:
        return _ask(client, call, tell, stop)


def _ask(client: _native.Client, call: Call, progress: Callable[[int], object] | None,
         stop: Stop | None) -> _native.Answer:
    elements = call.elements
    reference = elements.reference
    if reference is not None:
        try:
            return client.reduce_reference(reference.token, reference.byte_offset, reference.count, call.task,
                                           call.settings.native(), progress, stop)
        except NotFoundError:
            if elements.way == "resident":
                raise
            elements.send_instead()
    if elements.view is None:
        return _write(client, call, progress, stop)
    try:
        return client.reduce(elements.view, call.task, call.settings.native(), progress, stop)
    finally:
        elements.check_mapping()  # whose error says more than that the system could not read


def _write(client: _native.Client, call: Call, progress: Callable[[int], object] | None,
           stop: Stop | None) -> _native.Answer:
    pieces, call.elements.pieces = call.elements.pieces or iter(()), None
    views = views_of(pieces, call.elements)
    written = 0
    writer = _native.Writer(client, call.task, call.settings.native(), progress, stop)
    try:
        while (view := next_piece(views, call.elements, stop)) is not None:
            forks.check()  # the iterator may have forked, and have gone on in the new process, too
            writer.write(view)
            written += view.nbytes
        forks.check()
        answer = writer.commit()
    finally:
        writer.close()
    if progress is not None:
        progress(written)
    return answer


def elements_for(array: Any, dtype: Any, stop: Stop | None, memory: MemoryOfCall | None = None) -> Elements:
    """elements_of for a call, on the thread that blocks. An iterator and a file are the caller's code. An
    array only has to be read, or copied if it lies on a GPU, and that is waited for."""
    with in_callers_code(stop if comes_in_pieces(array) else None):
        return elements_of(array, dtype, memory)


def next_piece(pieces: Iterator[P], elements: Elements, stop: Stop | None) -> P | None:
    """The next of the pieces of `elements`. Those of an array on a GPU are copied here. Once the call is
    over, the caller may do anything with the array, so the copy is waited for."""
    with in_callers_code(stop if elements.way == "pieces" else None):
        return next(pieces, None)
