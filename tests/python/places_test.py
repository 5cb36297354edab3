# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""More calls at a time than a server has places: those of one client wait for each other. Also threads."""

import asyncio
import concurrent.futures
import contextvars
import threading
import time

import numpy
import pytest

import warpfold
from conftest import Server
from warpfold import aio, errors

X = numpy.ones(1 << 20)  # 8 MiB, so it is sent as shares on several streams
TIMEOUT_S = 300  # so that a failure does not hang


@pytest.fixture(scope="module")
def small():
    with Server("--max_concurrent_reductions=2") as server:
        yield server.address


def sums_of_threads(address, count, **options):
    with warpfold.connect(address) as client, concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: client.sum(X, timeout=TIMEOUT_S, **options), range(count)))


def sums_of_tasks(address, count, **options):
    async def main():
        async with aio.connect(address) as client:
            return await asyncio.gather(*(client.sum(X, timeout=TIMEOUT_S, **options) for _ in range(count)))

    return asyncio.run(main())


@pytest.mark.parametrize("sums", [sums_of_threads, sums_of_tasks])
@pytest.mark.parametrize("options", [{}, {"streams": 4}, {"axis": 0}])
def test_calls_of_one_client_wait_for_places(small, sums, options):
    assert sums(small, 40, **options) == [X.sum()] * 40


def test_who_has_no_place_gives_up_where_others_have_all():
    begun, end = threading.Semaphore(0), threading.Event()

    def pieces():
        yield X
        begun.release()
        assert end.wait(TIMEOUT_S)

    with Server("--max_concurrent_reductions=2") as server, warpfold.connect(server.address) as other, \
            warpfold.connect(server.address, max_attempts=2) as client, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        held = [pool.submit(other.sum, pieces()) for _ in range(2)]
        try:
            assert begun.acquire(timeout=TIMEOUT_S) and begun.acquire(timeout=TIMEOUT_S)
            begin_s = time.monotonic()
            with pytest.raises(errors.ResourceExhaustedError) as raised:
                client.sum(X, streams=1, timeout=TIMEOUT_S)
            assert raised.value.reason == "TOO_MANY_REDUCTIONS"
            assert time.monotonic() - begin_s < TIMEOUT_S / 2
        finally:
            end.set()
        assert [each.result() for each in held] == [X.sum()] * 2


def test_a_client_that_is_closed_while_a_call_begins(server, monkeypatch):
    """By another thread, between the check whether it is open and the call's place in the line."""

    async def main():
        client = aio.connect(server.address)
        assert await client.sum([1, 2]) == 3  # so that there is a thread, and it ends
        opened = client._client._open
        monkeypatch.setattr(client._client, "_open", lambda: (opened(), client.close())[0])
        with pytest.raises(RuntimeError, match="this client is closed"):
            await client.sum([1, 2], timeout=20)

    asyncio.run(main())


def test_iterators_and_progress_have_the_variables_of_their_task(server):
    scale = contextvars.ContextVar("scale")
    told = set()

    def pieces():
        for _ in range(2):
            yield numpy.full(3, scale.get())

    async def ask(client, of):
        scale.set(of)
        return await client.sum(pieces(), progress=lambda *unused: told.add(scale.get()))

    async def main():
        async with aio.connect(server.address) as client:
            return await asyncio.gather(*(ask(client, of) for of in range(5)))

    assert asyncio.run(main()) == [6 * of for of in range(5)]
    assert told == set(range(5)) and scale.get(None) is None


def test_iterators_on_all_threads_find_places(server):
    """They hold their threads until they end, so none may wait for another."""
    all_there = threading.Barrier(aio._THREADS)

    def pieces():
        yield numpy.ones(3)
        all_there.wait(TIMEOUT_S)
        yield numpy.ones(3)

    async def main():
        async with aio.connect(server.address) as client:
            return await asyncio.gather(*(client.sum(pieces()) for _ in range(2 * aio._THREADS)))

    assert asyncio.run(main()) == [6] * 2 * aio._THREADS
