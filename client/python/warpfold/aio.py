# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio:

    async with warpfold.aio.connect("127.0.0.1:50051") as client:
        total = await client.sum(array)
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import math
import threading
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from warpfold import _native
from warpfold.calls import CallOptions, Work, itself, too_late
from warpfold.client import DEFAULT_TARGET, Client, allocating, asking_whether_it_serves, informing
from warpfold.errors import CancelledError, WarpfoldError
from warpfold.later import Later
from warpfold.methods import Methods
from warpfold.options import Path, Shape, check_one_target
from warpfold.partial import PartialState, Parts
from warpfold.resident import ArrayInfo, AsyncResidentArray, asking, deleting, infos_of, listing, putting
from warpfold.results import Result
from warpfold.stops import Stop
from warpfold.threads import Job, Threads

if TYPE_CHECKING:
    import numpy
else:
    numpy = Later("numpy")

A = TypeVar("A")
T = TypeVar("T")

# How long a cancelled put tries to delete the array that it has kept, and is waited for. Otherwise the array
# stays for its ttl.
_UNDO_S = 5.0

# Further calls wait for their turn. Each call is a thread that waits for the network. There are fewer threads
# than the 56 places that a server gives one client by default, so that iterators, which hold a place until
# they end, all find one.
_THREADS = 48


def connect(target: str | Sequence[str] = DEFAULT_TARGET, *, connections: int = 64, max_attempts: int = 4,
            tls_ca: Path | None = None, tls_cert: Path | None = None, tls_key: Path | None = None,
            memory_socket: Path | None = None) -> AsyncClient:
    """As warpfold.connect. Does not block, and may be called where there is no event loop."""
    return AsyncClient(Client(target, connections=connections, max_attempts=max_attempts, tls_ca=tls_ca,
                              tls_cert=tls_cert, tls_key=tls_key, memory_socket=memory_socket))


class AsyncClient(Methods[Coroutine[Any, Any, Any], Coroutine[Any, Any, Result]],
                  Parts[Coroutine[Any, Any, Result], Coroutine[Any, Any, PartialState]]):
    """See connect. Its methods are those of warpfold.Client, and return coroutines.

    The timeout begins when a method is called. Arguments that do not exist are rejected there, and so are
    wrong types and negative numbers for the options that all methods take (warpfold.calls.CommonOptions),
    wrong values of keepdims, matrix and ord, and both or none of lengths and offsets. The call is made when
    the coroutine is awaited, or run as a task, as with asyncio.gather: only in this way do several run at the
    same time. Errors in the array, and wrong values of axis, lengths, offsets, nan, overflow, ddof, modulus
    and dtype, are raised there. Cancelling the task ends the call.

    An awaitable that is cancelled ends its call, and raises CancelledError once nothing reads the array any
    more: at once if the call still waits for its turn, or for an iterator's next piece. A coroutine that is
    closed, for example with close(), also ends its call, but does not wait: the array may still be read for a
    moment, and an array that it put may stay for its ttl.

    Calls run on the client's 48 threads, one each; further calls wait for their turn, and this time counts
    towards their timeout. Iterators and `progress` are called there, too, with the context variables of the
    task that awaits. While `progress` runs, neither the timeout nor a cancellation ends an awaitable, since
    the array is still read. Nothing can end an iterator that waits: it occupies one of the 48 threads, and
    what the call held stays in use, until the iterator yields a piece or ends. Nothing of that piece is sent.
    """

    def __init__(self, client: Client):
        self._client = client
        self._memory = client._memory
        self._threads = Threads(_THREADS)

    # Each method checks its options when it is called, and its timeout begins then.

    def info(self, *, timeout: float | None = None) -> Coroutine[Any, Any, dict[str, Any]]:
        """As Client.info."""
        return self._perform(informing(timeout), itself)

    def is_serving(self, *, timeout: float | None = None) -> Coroutine[Any, Any, bool]:
        """As Client.is_serving."""
        return self._perform(asking_whether_it_serves(timeout), itself)

    def put(self, array: Any, *, matrix: bool = False, ttl: float | None = None, owner: str = "",
            **options: Unpack[CallOptions]) -> Coroutine[Any, Any, AsyncResidentArray]:
        """As Client.put. If it is cancelled, nothing is kept; but if the server's response was already on its
        way, or the server does not accept the call to delete the array, the array stays for its ttl."""
        check_one_target(self._client._targets)
        return self._perform(putting(array, matrix, ttl, owner, options),
                             lambda answer: AsyncResidentArray(self, *answer),
                             lambda native, answer: deleting(answer[0][0], _UNDO_S).run(native, None))

    def array(self, token: bytes, *, timeout: float | None = None) -> Coroutine[Any, Any, AsyncResidentArray]:
        """As Client.array."""
        check_one_target(self._client._targets)
        return self._perform(asking(token, timeout), lambda answer: AsyncResidentArray(self, answer))

    def arrays(self, owner: str = "", *, timeout: float | None = None) \
            -> Coroutine[Any, Any, list[ArrayInfo]]:
        """As Client.arrays."""
        check_one_target(self._client._targets)
        return self._perform(listing(owner, timeout), infos_of)

    def empty(self, shape: Shape, dtype: Any = "float64", *, timeout: float | None = None) \
            -> Coroutine[Any, Any, numpy.ndarray[Any, Any]]:
        """As Client.empty."""
        return self._perform(allocating(self._memory, shape, dtype, timeout), itself)

    def close(self) -> None:
        """Later calls raise; those in progress run to their end."""
        self._client.close()
        self._threads.close()

    async def _perform(self, work: Work[A], finish: Callable[[A], T],
                       undo: Callable[[_native.Client, A], Any] | None = None) -> T:
        native = self._client._open()
        running = _Running(self._threads, native, work)
        left_s = work.settings.left_s()
        del work  # an error's traceback has this frame, and the work has the array
        try:
            if not await running.ends_within(left_s):
                if running.abandon(too_late):
                    raise too_late()
                await running.ends_within(math.inf)  # what the client library does ends by itself
            return finish(running.future.result())
        except asyncio.CancelledError:
            if not running.stop():
                await _end_of(running.future)
                if undo is not None and running.has_answer():
                    # The client may have been closed, and its threads with it; the loop's may all be busy.
                    job = Job(functools.partial(undo, native, running.future.result()))
                    threading.Thread(target=job.run, name="warpfold", daemon=True).start()
                    await _end_of(job.future)
            raise
        except BaseException:  # as of a coroutine that is closed, which must not await; else the call is over
            running.stop()
            raise
        finally:
            # The future has the error: the two would keep each other.
            del running

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._client).replace("warpfold.Client", "warpfold.AsyncClient")


class _Running(Generic[A]):
    """A call on a thread, whose end a coroutine awaits."""

    def __init__(self, threads: Threads, native: _native.Client, work: Work[A]):
        self._threads = threads
        self._stop = Stop()
        # The caller's code sees the task's variables there, as with asyncio.to_thread.
        self._job = Job(functools.partial(contextvars.copy_context().run, _done, work, native, self._stop))
        self.future = self._job.future
        threads.add(self._job)

    async def ends_within(self, most_s: float) -> bool:
        """asyncio.wait would do this, but takes longer."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(most_s, _wake, waiter)
        self.future.add_done_callback(functools.partial(_wake_from_thread, loop, waiter))
        try:
            await waiter
        finally:
            timer.cancel()
        return self.future.done()

    def abandon(self, error: Callable[[], WarpfoldError]) -> bool:
        """Withdraws the call, or has it end with `error` when the caller's code that its thread is running
        returns. Returns whether that is enough: otherwise the client library is using the array, and has to
        be waited for."""
        return self._threads.withdraw(self._job) or self._stop.leave(error)

    def stop(self) -> bool:
        """Ends the call as soon as possible. Returns whether nobody has to wait for that."""
        nobody_waits = self.abandon(_cancelled)
        self._stop.request()
        return nobody_waits

    def has_answer(self) -> bool:
        return self.future.done() and not self.future.cancelled() and self.future.exception() is None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _wake_from_thread(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _: object) -> None:
    with contextlib.suppress(RuntimeError):  # nobody waits on a loop that was closed
        loop.call_soon_threadsafe(_wake, waiter)


def _cancelled() -> CancelledError:
    return CancelledError("the awaitable was cancelled")


def _done(work: Work[A], native: _native.Client, stop: Stop) -> A:
    try:
        return work.run(native, stop)
    except BaseException as error:
        _let_go(work, error)
        # A future does not accept StopIteration, and would never be done: as in generators, it becomes a
        # RuntimeError.
        if isinstance(error, StopIteration):
            raise RuntimeError("the call raised StopIteration") from error
        raise
    finally:
        del work  # the traceback has this frame, too


def _let_go(work: Work[A], error: BaseException) -> None:
    """Removes the array from what the error's traceback holds: asyncio keeps an error for some iterations of
    the loop, and an array's memory may have to be closed right after the call. Frames of this package are
    cleared, including those in errors of other calls that the caller has chained to this one."""
    for cell in getattr(work.run, "__closure__", None) or ():
        del cell.cell_contents
    errors: list[BaseException | None] = [error]
    seen: set[int] = set()  # an iterator may raise errors that are chained in a circle
    while errors:
        one = errors.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        for frame, _ in traceback.walk_tb(one.__traceback__):
            if frame.f_globals.get("__package__") == __package__:
                with contextlib.suppress(RuntimeError):  # for frames that still run
                    frame.clear()
        errors += (one.__context__, one.__cause__)


async def _end_of(future: concurrent.futures.Future[Any]) -> None:
    """Waits, however often the wait is cancelled: until then the call reads the array."""
    waiter = asyncio.wrap_future(future)
    while not waiter.done():
        try:
            await asyncio.wait((waiter,))
        except asyncio.CancelledError:
            continue
    if not waiter.cancelled():
        waiter.exception()  # asyncio logs exceptions that nobody has retrieved
