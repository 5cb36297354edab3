# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: values, many calls at once, and that cancelling an awaitable ends its call."""

import asyncio
import concurrent.futures
import contextlib
import functools
import gc
import mmap
import random
import sys
import threading
import time
import weakref

import numpy
import pytest

from calls_test import LONG_S, X, reductions, silence, slow_pieces
from conftest import Server
from warpfold import aio
from warpfold.calls import Work
from warpfold.errors import CancelledError, DeadlineExceededError
from warpfold.resident import AsyncResidentArray


def run(scenario, address):
    async def connected():
        async with aio.connect(address) as client:
            return await scenario(client)

    return asyncio.run(connected())


def test_methods(server):
    async def scenario(client):
        assert await client.sum(X) == X.sum()
        assert (await client.var(X, ddof=1)) == pytest.approx(X.var(ddof=1))
        result = await client.reduce(X, ["min", "argmax"])
        assert dict(result) == {"min": 0, "argmax": 999}
        assert await client.sum(slow_pieces(2)) == 2 << 18
        assert (await client.info())["version"] and await client.is_serving()
        assert server.address in repr(client) and "AsyncClient" in repr(client)
        with pytest.raises(ValueError) as raised:
            await client.min(X[:0])
        assert raised.value.reason == "EMPTY_ARRAY"
        with pytest.raises(TypeError):
            await client.sum(None)

    run(scenario, server.address)


TOKEN = bytes(16)


@pytest.mark.parametrize("method", ["sum", "info", "is_serving", "put", "array", "arrays", "delete", "empty"])
def test_timeouts_and_errors_of_options_begin_where_the_method_is_called(near, path, method):
    async def scenario():
        async with aio.connect(near.address, memory_socket=path) as client:
            calls = {"sum": functools.partial(client.sum, X), "put": functools.partial(client.put, X),
                     "array": functools.partial(client.array, TOKEN),
                     "empty": functools.partial(client.empty, 3), "info": client.info,
                     "is_serving": client.is_serving, "arrays": client.arrays,
                     "delete": AsyncResidentArray(client, (TOKEN, 1, "", "int8", None, 1, 1, 0, 9)).delete}
            with pytest.raises(TypeError, match="timeout"):
                calls[method](timeout="3")
            call = calls[method](timeout=0.05)
            await asyncio.sleep(0.1)
            with pytest.raises(DeadlineExceededError):
                await call

    asyncio.run(scenario())


class Slow:
    """A file and an array on a GPU, which record the threads that read them."""

    shape = (3,)

    def __init__(self):
        self.threads = []
        self.rest = [b"", numpy.ones(3).tobytes()]

    def read(self, size):
        self.threads.append(threading.current_thread())
        return self.rest.pop()

    def get(self):
        return numpy.frombuffer(self.read(24))


class SlowOnGpu(Slow):
    def __init__(self):
        super().__init__()
        self.__cuda_array_interface__ = {"data": (0, False), "shape": (3,), "typestr": "<f8", "version": 3}


def test_no_piece_is_made_on_the_loops_thread(server):
    def pieces(slow):
        slow.threads.append(threading.current_thread())
        yield numpy.ones(3)

    async def scenario(client):
        slow = Slow()
        assert await client.sum(pieces(slow)) == await client.sum(slow, dtype="float64") == 3
        result = await client.reduce(pieces(slow), ["sum"])
        assert result["sum"] == 3 and result.way == "pieces" and len(slow.threads) == 4
        on_gpu = SlowOnGpu()
        assert await client.sum(on_gpu) == 3 and len(on_gpu.threads) == 1
        assert threading.current_thread() not in slow.threads + on_gpu.threads
        with pytest.raises(TypeError, match="no axes"):
            await client.sum(pieces(slow), axis=0)
        with pytest.raises(TypeError, match="concatenate"):
            await client.put(pieces(slow))
        assert threading.current_thread() not in slow.threads

    run(scenario, server.address)


def test_many_at_once(server):
    async def scenario(client):
        sums = await asyncio.gather(*(client.sum(X + i) for i in range(200)))
        assert sums == [(X + i).sum() for i in range(200)]

    run(scenario, server.address)


@pytest.mark.parametrize("make", [lambda: numpy.ones(10), lambda: numpy.ones(1 << 22)])
def test_cancelled_awaitables_let_go_of_the_array(make, monkeypatch):
    ended = []
    monkeypatch.setattr(aio, "_end_of", lambda future, wait=aio._end_of: ended.append(future) or wait(future))

    async def scenario(client):
        x = make()
        references = sys.getrefcount(x)
        task = asyncio.create_task(client.sum(x, timeout=LONG_S))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        assert isinstance(ended.pop().exception(), CancelledError)  # because of the stop, and not of the peer
        # The thread that ran the call drops its last reference right after it.
        while sys.getrefcount(x) > references:
            await asyncio.sleep(0.01)

    with silence() as address:
        run(scenario, address)


def test_the_loop_goes_on_during_a_call():
    async def scenario(client):
        task = asyncio.create_task(client.sum(X, timeout=1))
        for _ in range(10):
            await asyncio.sleep(0.001)
        assert not task.done()
        with pytest.raises(TimeoutError):
            await task

    with silence() as address:
        run(scenario, address)


def test_a_group_that_fails_cancels_its_calls():
    async def fail():
        await asyncio.sleep(0.2)
        raise LookupError

    async def scenario(client):
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                group.create_task(client.sum(X, timeout=LONG_S))
                group.create_task(fail())
        assert [type(error) for error in raised.value.exceptions] == [LookupError]

    with silence() as address:
        run(scenario, address)


def progress_without_more(done, total):
    raise StopIteration("no more")


def test_a_stop_iteration_is_a_runtime_error(server):
    """A future accepts no exception of this kind, as a generator does not."""
    async def scenario(client):
        with pytest.raises(RuntimeError) as raised:
            await asyncio.wait_for(client.sum(X, progress=progress_without_more), 20)
        assert isinstance(raised.value.__cause__, StopIteration)

    run(scenario, server.address)


def test_a_stop_iteration_after_the_cancellation(server):
    def progress(done, total):
        reached.set()
        assert cancelled.wait(20)
        raise StopIteration("no more")

    async def scenario(client):
        task = asyncio.create_task(client.sum(slow_pieces(3), progress=progress))
        assert await asyncio.to_thread(reached.wait, 20)
        task.cancel()
        await asyncio.sleep(0.05)  # the call learns of it
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 20)

    reached, cancelled = threading.Event(), threading.Event()
    run(scenario, server.address)


class Held:
    """An iterator that gives a piece when it is told to, and reports when it is asked for one."""

    def __init__(self, before=0, piece=X):
        self.before, self.piece = before, piece
        self.asked, self.told = threading.Event(), threading.Event()

    def __iter__(self):
        return self

    def __next__(self):
        self.before -= 1
        if self.before < 0:
            self.asked.set()
            assert self.told.wait(LONG_S)
            if self.before < -1:
                raise StopIteration
        return self.piece


@contextlib.contextmanager
def no_collection():
    """Objects that are released within have to be freed without the collector."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def comes_true(condition):
    for _ in range(2000):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


async def goes(alive):
    """The thread that ran the call drops its last reference right after it."""
    return await comes_true(lambda: alive() is None)


@pytest.mark.parametrize("options, kind", [
    ({}, OverflowError), ({"timeout": 0.2}, DeadlineExceededError),
    ({"progress": progress_without_more}, RuntimeError)])
def test_what_raises_lets_go_of_the_array_without_a_collection(server, options, kind):
    async def scenario(client):
        array = numpy.array([2**62 if kind is OverflowError else 1] * 8)
        alive = weakref.ref(array)
        with contextlib.suppress(kind):
            await client.sum(array, **options)
            pytest.fail("no error")
        del array
        assert await goes(alive)

    peer = silence() if "timeout" in options else contextlib.nullcontext(server.address)
    with no_collection(), peer as address:
        run(scenario, address)


async def sum_that_is_cancelled(client, memory):
    task = asyncio.ensure_future(client.sum(memory))
    await asyncio.sleep(random.random() * 0.006)
    task.cancel()
    await task


async def sum_within(client, memory):
    async with asyncio.timeout(0.002):
        await client.sum(memory)


@pytest.mark.parametrize("call", [
    sum_that_is_cancelled, sum_within, lambda client, memory: client.sum(memory, timeout=0.002),
    lambda client, memory: client.sum(memory, dtype="float32", progress=progress_without_more),
    lambda client, memory: client.sum(memory.cast("f", (1024, 1024)), 1, timeout=0.002),
    lambda client, memory: client.put(memory),  # this is more than the server keeps
    lambda client, memory: client.sum(memory), lambda client, memory: client.put(memory[:4096])])
def test_an_arrays_memory_can_be_closed_right_after_its_call(server, call):
    async def scenario(client):
        for _ in range(30):
            with mmap.mmap(-1, 4 << 20) as memory, memoryview(memory) as view, \
                    contextlib.suppress(asyncio.CancelledError, TimeoutError, RuntimeError):
                await call(client, view)

    with no_collection():
        run(scenario, server.address)


def is_closed(memory):
    try:
        memory.close()
    except BufferError:
        return False
    return True


# When the time is over the thread may be within the iterator. Nobody can take from the thread what it has,
# and the call does not wait for it.
def test_memory_that_an_iterator_gave_can_be_closed_soon_after_its_call(server):
    async def scenario(client):
        for _ in range(30):
            memory = mmap.mmap(-1, 4 << 20)
            with contextlib.suppress(TimeoutError):
                await client.sum(iter([memory, b"\1"]), timeout=0.002)
            assert await comes_true(lambda memory=memory: is_closed(memory))

    with no_collection():
        run(scenario, server.address)


def test_memory_of_a_call_that_waited_for_its_turn_can_be_closed_right_after_it(server):
    async def scenario(client):
        async with all_threads_held(client):
            for end in (asyncio.CancelledError, TimeoutError):
                memory = mmap.mmap(-1, 4096)
                task = asyncio.create_task(client.sum(memoryview(memory),
                                                      timeout=0.01 if end is TimeoutError else LONG_S))
                await asyncio.sleep(0)
                if end is asyncio.CancelledError:
                    task.cancel()
                with pytest.raises(end) as raised:
                    await task
                memory.close()
                assert raised.value.__traceback__ is not None  # and yet the error does not keep the array

    with no_collection():
        run(scenario, server.address)


async def ends(task):
    """Whether the task ends although its thread is held up."""
    return (await asyncio.wait((task,), timeout=20))[0] == {task}


@contextlib.asynccontextmanager
async def all_threads_held(client):
    held = [Held() for _ in range(aio._THREADS)]
    tasks = [asyncio.create_task(client.sum(pieces)) for pieces in held]
    for pieces in held:
        assert await asyncio.to_thread(pieces.asked.wait, 20)
    try:
        yield
    finally:
        for pieces in held:
            pieces.told.set()
        assert await asyncio.gather(*tasks) == [X.sum()] * len(tasks)


def test_calls_that_wait_for_their_turn_end_at_once_and_are_not_sent(tmp_path):
    async def scenario(client):
        x = numpy.ones(9)
        async with all_threads_held(client):
            task = asyncio.create_task(client.sum(x, request_id="queued", timeout=LONG_S))
            queued = client._threads._line.waiting
            while not queued:
                await asyncio.sleep(0)
            references = sys.getrefcount(x)
            task.cancel()
            assert await ends(task) and task.cancelled() and not queued
            del task
            assert sys.getrefcount(x) < references
            task = asyncio.create_task(client.sum(x, request_id="queued", timeout=0.2))
            assert await ends(task) and not queued
            assert type(task.exception()) is DeadlineExceededError and task.exception().reason == "DEADLINE"
        assert await client.sum(x, request_id="later") == 9

    path = tmp_path / "log"
    with open(path, "wb") as log, Server("--max_concurrent_reductions=100", log=log) as server:
        run(scenario, server.address)
    ids = [line.get("request_id") for line in reductions(path)]
    assert ids.count("later") == 1 and "queued" not in ids


@pytest.mark.parametrize("before", [0, 1])
def test_a_call_ends_though_its_iterator_waits(before):
    async def scenario(client):
        for ends_by in ("cancel", "timeout"):
            pieces = Held(before)
            options = {"timeout": 0.2 if ends_by == "timeout" else LONG_S}
            task = asyncio.create_task(client.sum(pieces, **options))
            if ends_by == "cancel":
                assert await asyncio.to_thread(pieces.asked.wait, 20)
                task.cancel()
            assert await ends(task)
            if ends_by == "cancel":
                assert task.cancelled()
            else:
                assert task.exception().reason == "DEADLINE"
            # The server has room for one call, so the other one has ended there.
            assert await client.sum(X) == X.sum()
            # Its thread releases everything when the iterator returns.
            alive = weakref.ref(pieces)
            pieces.told.set()
            del pieces, task
            with no_collection():
                assert await goes(alive)
            assert client._threads._line.busy <= 1

    with Server("--max_concurrent_reductions=1") as server:
        run(scenario, server.address)


def test_what_an_iterator_gives_too_late_is_not_sent(tmp_path):
    async def scenario(client):
        pieces = Held()
        task = asyncio.create_task(client.sum(pieces, request_id="late"))
        assert await asyncio.to_thread(pieces.asked.wait, 20)
        task.cancel()
        assert await ends(task)
        pieces.told.set()
        while client._threads._line.busy:
            await asyncio.sleep(0.01)

    path = tmp_path / "log"
    with open(path, "wb") as log, Server(log=log) as server:
        run(scenario, server.address)
    assert reductions(path) == []


def test_what_a_cancelled_put_kept_is_deleted_while_the_loops_threads_are_busy(server, monkeypatch):
    async def scenario(client):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asyncio.get_running_loop().set_default_executor(pool)
            pool.submit(go_on.wait, LONG_S)
            answered, work = threading.Event(), aio.putting(X, False, None, "undone", {})
            monkeypatch.setattr(aio, "putting", lambda *unused: Work(work.settings, lambda *given: (
                work.run(*given), answered.set(), time.sleep(0.2))[0]))
            task = asyncio.create_task(client.put(X))
            while not answered.is_set():
                await asyncio.sleep(0.01)
            assert len(await client.arrays("undone")) == 1
            task.cancel()
            try:
                assert await ends(task) and task.cancelled()
                assert await client.arrays("undone") == []
            finally:
                go_on.set()

    go_on = threading.Event()
    run(scenario, server.address)


def test_a_coroutine_that_is_closed_ends_its_call():
    async def scenario(client):
        pieces = Held(before=1)
        call = client.sum(pieces)
        call.send(None)
        assert await asyncio.to_thread(pieces.asked.wait, 20)
        call.close()
        # The server has room for one call, so the other one has ended there.
        assert await client.sum(X) == X.sum()
        pieces.told.set()

    with Server("--max_concurrent_reductions=1") as server:
        run(scenario, server.address)


def test_a_coroutine_that_is_closed_waits_for_no_thread():
    async def scenario(client):
        async with all_threads_held(client):
            call = client.sum(X)
            call.send(None)
            assert client._threads._line.waiting
            call.close()
            assert not client._threads._line.waiting

    with Server("--max_concurrent_reductions=100") as server:
        run(scenario, server.address)


def test_errors_that_are_chained_in_a_circle(server):
    def pieces():
        yield numpy.ones(3)
        one, other = ValueError("one"), KeyError("other")
        one.__context__, other.__context__ = other, one
        raise one

    async def asked():
        async with aio.connect(server.address) as client:
            with pytest.raises(ValueError, match="one"):
                await asyncio.wait_for(client.sum(pieces()), 30)

    asyncio.run(asked())
