# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio:

    async with warpfold.aio.connect("127.0.0.1:50051") as client:
        total = await client.sum(array)
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from warpfold import _native
from warpfold.calls import CallOptions, itself
from warpfold.client import DEFAULT_TARGET, Client, allocating, asking_whether_it_serves, informing
from warpfold.methods import Methods
from warpfold.partial import PartialState, Parts
from warpfold.resident import ArrayInfo, AsyncResidentArray, asking, deleting, infos_of, listing, putting
from warpfold.results import Result

if TYPE_CHECKING:
    import numpy

    from warpfold.memory import Shape

A = TypeVar("A")
T = TypeVar("T")

# To delete what a cancelled put has kept. Beyond that it stays for its ttl: who cancels waits for this.
_UNDO_S = 5.0

# Calls beyond these wait for their turn. Each is a thread that waits for the network.
_THREADS = 64


def connect(target: str | Sequence[str] = DEFAULT_TARGET, *, connections: int = 64, max_attempts: int = 4,
            tls_ca: str | os.PathLike[str] | None = None, tls_cert: str | os.PathLike[str] | None = None,
            tls_key: str | os.PathLike[str] | None = None,
            memory_socket: str | os.PathLike[str] | None = None) -> AsyncClient:
    """As warpfold.connect. Does not block, and may be called where there is no event loop."""
    return AsyncClient(Client(target, connections=connections, max_attempts=max_attempts, tls_ca=tls_ca,
                              tls_cert=tls_cert, tls_key=tls_key, memory_socket=memory_socket))


class AsyncClient(Methods[Awaitable[Any], Awaitable[Result]],
                  Parts[Awaitable[Result], Awaitable[PartialState]]):
    """See connect. Its methods are those of warpfold.Client, and answer awaitables.

    An awaitable that is cancelled ends its call, and raises CancelledError once nothing of the array is held
    any more. An iterator's pieces are made on a thread of the client's; `progress` is called there, too.
    """

    def __init__(self, client: Client):
        self._client = client
        self._memory = client._memory
        self._threads = ThreadPoolExecutor(_THREADS, "warpfold")

    async def info(self, *, timeout: float | None = None) -> dict[str, Any]:
        """As Client.info."""
        return await self._perform(informing(timeout), itself)

    async def is_serving(self, *, timeout: float | None = None) -> bool:
        """As Client.is_serving."""
        return await self._perform(asking_whether_it_serves(timeout), itself)

    async def put(self, array: Any, *, matrix: bool = False, ttl: float | None = None, owner: str = "",
                  **options: Unpack[CallOptions]) -> AsyncResidentArray:
        """As Client.put. Cancelled, it keeps nothing; but where the server's answer was on its way, or the
        server takes no order to delete it, the array stays for its ttl."""
        work = putting(array, matrix, ttl, owner, options)
        kept: AsyncResidentArray = await self._perform(
            work, lambda answer: AsyncResidentArray(self, *answer),
            lambda native, answer: deleting(answer[0][0], _UNDO_S)(native, None))
        return kept

    async def array(self, token: bytes, *, timeout: float | None = None) -> AsyncResidentArray:
        """As Client.array."""
        return await self._perform(asking(token, timeout), lambda answer: AsyncResidentArray(self, answer))

    async def arrays(self, owner: str = "", *, timeout: float | None = None) -> list[ArrayInfo]:
        """As Client.arrays."""
        return await self._perform(listing(owner, timeout), infos_of)

    async def empty(self, shape: Shape, dtype: Any = "float64", *, timeout: float | None = None) \
            -> numpy.ndarray[Any, Any]:
        """As Client.empty."""
        return await self._perform(allocating(self._memory, shape, dtype, timeout), itself)

    def close(self) -> None:
        """Later calls raise; those under way go on to their end."""
        self._client.close()
        self._threads.shutdown(wait=False)

    async def _perform(self, work: Callable[[_native.Client, _native.Stop | None], A],
                       finish: Callable[[A], T],
                       undo: Callable[[_native.Client, A], Any] | None = None) -> T:
        stop = _native.Stop()
        native = self._client._open()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, _without_stop_iteration, work, native, stop)
        _under_way[stop] = (loop, threading.current_thread())
        try:
            return finish(await asyncio.shield(future))
        except asyncio.CancelledError:
            stop.request()
            await _end_of(future)
            if undo is not None and not future.cancelled() and future.exception() is None:
                # On a thread of the loop's: the client may have been closed meanwhile, and its own with it.
                await _end_of(loop.run_in_executor(None, undo, native, future.result()))
            raise
        finally:
            _under_way.pop(stop, None)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._client).replace("warpfold.Client", "warpfold.AsyncClient")


# What ends each call that is under way, and the loop and its thread, which wait for it. Those of a process
# are not its children's.
_under_way: dict[_native.Stop, tuple[asyncio.AbstractEventLoop, threading.Thread]] = {}
os.register_at_fork(after_in_child=_under_way.clear)


def _stop_what_nobody_waits_for() -> None:
    """At the interpreter's end. A loop that still runs on a thread which is waited for has its calls done."""
    for stop, (loop, thread) in list(_under_way.items()):
        if thread.daemon or not loop.is_running():
            stop.request()


# atexit would be too late: concurrent.futures has waited for its threads by then. It has registered itself in
# this way, too, when it was imported, and the last that was registered is the first to run.
# While the interpreter ends already, it takes no more.
with contextlib.suppress(RuntimeError):
    getattr(threading, "_register_atexit", atexit.register)(_stop_what_nobody_waits_for)


def _without_stop_iteration(work: Callable[[_native.Client, _native.Stop | None], A],
                            native: _native.Client, stop: _native.Stop) -> A:
    """A future takes no StopIteration, and would never be done: as in generators it is a RuntimeError."""
    try:
        return work(native, stop)
    except StopIteration as error:
        raise RuntimeError("the call raised StopIteration") from error


async def _end_of(future: asyncio.Future[Any]) -> None:
    """Waits however often the waiting is cancelled: until then the call reads the array."""
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            continue
    if not future.cancelled():
        future.exception()
