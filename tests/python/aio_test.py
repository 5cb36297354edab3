# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: values, many calls at once, and that to cancel an awaitable ends its call."""

import asyncio
import sys
import threading

import numpy
import pytest

from calls_test import LONG_S, X, silence, slow_pieces
from warpfold import aio
from warpfold.errors import CancelledError


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


class Slow:
    """A file and an array on a GPU, of which the threads that read it are noted."""

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
        assert isinstance(ended.pop().exception(), CancelledError)  # by the stop, and not because of the peer
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
    """A future takes none, as a generator does not."""
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
        await asyncio.sleep(0.05)  # the call hears of it
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 20)

    reached, cancelled = threading.Event(), threading.Event()
    run(scenario, server.address)
