# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that succeed, fail and are given up leave nothing behind, in the process's memory or in Python's; nor
do closed clients leave descriptors or threads."""

import asyncio
import gc
import math
import os
import sys
import time
import tracemalloc
import weakref

import numpy
import pytest

import warpfold
from conftest import Server
from warpfold import aio, errors

PAGE = os.sysconf("SC_PAGE_SIZE")
X = numpy.ones((300, 100))
MAPPED = None  # a file


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE


def pieces_that_end_early():
    yield X
    raise LookupError


def that_raise(client):
    with pytest.raises(ValueError):
        client.min(X[:0])
    with pytest.raises(LookupError):
        client.sum(pieces_that_end_early())
    with pytest.raises(TypeError):
        client.sum(numpy.array([None]))
    with pytest.raises(NotImplementedError):
        client.reduce(X, ["median"])
    with pytest.raises(TimeoutError):
        client.sum(X, timeout=0)


def kept(client):
    with client.put(X) as array:
        array.sum(), array[5:].max(), client.array(array.token), client.arrays()
    with pytest.raises(errors.NotFoundError):
        array.sum()


def parts(client):
    states = [client.partial(X[:128], ["sum"]), client.partial(X[128:], ["sum"], 12_800)]
    client.merge([client.merge_to_state(states)])
    with pytest.raises(TypeError):
        client.merge([None])


def mapped(client):
    m = numpy.memmap(MAPPED, "float64", "r")
    client.sum(m), client.sum(m[::2]), client.sum(numpy.asarray(m), checksum=True)


async def in_asyncio(client):
    async with aio.connect(client._targets[0]) as other:
        await asyncio.gather(other.sum(X), other.sum(X.T), other.reduce(X, ["max"]))
        task = asyncio.create_task(other.sum(X))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# Actions that are repeated, each with others that share nothing with it.
ACTIONS = {
    "sum": lambda client: client.sum(X),
    "strides": lambda client: client.sum(X.T),
    "several": lambda client: client.reduce(X, ["describe", "argmax", "max_subarray_sum"]),
    "segments": lambda client: client.reduce_segments(
        X.reshape(-1), ["sum", "argmax"], lengths=[0, 1, X.size - 1]).outcomes["argmax"].error.fields,
    "pieces": lambda client: client.sum(iter([X, X])),
    "axis": lambda client: (client.sum(X, 0), client.max(X, 1), client.sum(X, (0, 1), keepdims=True)),
    "progress": lambda client: client.sum(X, progress=lambda done, total: None),
    "options": lambda client: client.sum(X, timeout=60, request_id="leak", checksum=True, streams=1),
    "info": lambda client: (client.info(), client.is_serving()),
    "errors": that_raise,
    "kept": kept,
    "empty": lambda client: client.sum(client.empty(1000)),
    "parts": parts,
    "mapped": mapped,
    "asyncio": lambda client: asyncio.run(in_asyncio(client))}
# Enough rounds that a leak of these bytes in each is more than a few pages.
_ROUNDS = {"asyncio": 700}
_LEAK_BYTES = 100
# The memory that the allocator may take in any number of rounds.
_PAGES_BYTES = 65536
_TRIES = 12
_FIRST = 5
_CLIENTS = 40
_GONE_S = 60


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    global MAPPED
    folder = tmp_path_factory.mktemp("leaks")
    MAPPED = folder / "mapped"
    X.tofile(MAPPED)
    with Server("--resident_bytes=16777216", f"--memory_socket={folder}/memory") as server, \
            warpfold.connect(server.address, memory_socket=folder / "memory") as client:
        yield client


def everything(client, rounds):
    for _ in range(rounds):
        for action in ACTIONS.values():
            action(client)


@pytest.mark.parametrize("name", ACTIONS)
def test_memory_of_the_process(client, name):
    """Pools of memory grow once in a while, but leaks always grow: the least of several tries counts."""
    action, rounds = ACTIONS[name], _ROUNDS.get(name, 1000)
    most = max(_LEAK_BYTES * rounds, _PAGES_BYTES)
    grown = []
    while len(grown) < _TRIES and min(grown, default=math.inf) > most:
        before = resident_bytes()
        for _ in range(rounds):
            action(client)
        gc.collect()
        grown.append(resident_bytes() - before)
    print(f"{name}: {min(grown) / rounds:.1f} bytes a round", file=sys.stderr)
    assert min(grown) <= most, grown


def test_memory_of_python(client):
    everything(client, 20)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        everything(client, 50)
        gc.collect()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    ours = [tracemalloc.Filter(True, "*/warpfold/*")]
    grown = sum(line.size_diff for line in
                after.filter_traces(ours).compare_to(before.filter_traces(ours), "filename"))
    assert grown < 10_000


def count_of(what):
    return len(os.listdir(f"/proc/self/{what}"))


def one_that_is_dropped(client, path):
    other = warpfold.connect(client._targets[0], memory_socket=path)
    other.sum(other.empty(10))


def one_that_fails(client, path):
    with warpfold.connect("127.0.0.1:1", max_attempts=1) as nobody, pytest.raises(errors.UnavailableError):
        nobody.sum(X)


def one_of_asyncio(client, path):
    async def main():
        async with aio.connect(client._targets[0], memory_socket=path) as other:
            await asyncio.gather(*(other.sum(X) for _ in range(8)), other.empty(10))

    asyncio.run(main())


def one_of_everything(client, path):
    with warpfold.connect(client._targets[0], memory_socket=path) as other:
        for action in ACTIONS.values():
            action(other)
        other.sum(X.repeat(100), streams=4)


@pytest.mark.parametrize("one", [one_of_everything, one_that_is_dropped, one_that_fails, one_of_asyncio])
def test_clients_that_are_closed_leave_no_descriptors_and_no_threads(client, one):
    """What gRPC and Python have for the whole process comes with the first few. The rest goes once threads
    have seen that a client is closed."""
    path = MAPPED.parent / "memory"
    for _ in range(_FIRST):
        one(client, path)
    descriptors, threads = count_of("fd"), count_of("task")
    for _ in range(_CLIENTS):
        one(client, path)
    gc.collect()
    deadline = time.monotonic() + _GONE_S
    # gRPC has a few threads more or less at any time, but not one for each client.
    while count_of("fd") > descriptors or count_of("task") > threads + _CLIENTS // 4:
        assert time.monotonic() < deadline, (descriptors, count_of("fd"), threads, count_of("task"))
        time.sleep(0.05)


def test_arrays_are_let_go(client):
    x = numpy.ones(1000)
    alive = weakref.ref(x)
    result = client.reduce(x, ["sum"])
    del x
    gc.collect()
    assert alive() is None and result["sum"] == 1000
