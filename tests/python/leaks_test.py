# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that succeed, fail and are given up leave nothing behind, in the process's memory or in Python's."""

import gc
import os
import tracemalloc
import weakref

import numpy
import pytest

PAGE = os.sysconf("SC_PAGE_SIZE")
X = numpy.ones((300, 100))


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE


def pieces_that_end_early():
    yield X
    raise LookupError


def everything(client, rounds):
    for _ in range(rounds):
        client.sum(X)
        client.sum(X.T)
        client.reduce(X, ["describe", "argmax", "max_subarray_sum"])
        client.sum(iter([X, X]))
        with pytest.raises(ValueError):
            client.min(X[:0])
        with pytest.raises(LookupError):
            client.sum(pieces_that_end_early())
        with pytest.raises(TypeError):
            client.sum(numpy.array([None]))


def test_memory_of_the_process(client):
    everything(client, 200)
    before = resident_bytes()
    everything(client, 600)
    # A call's leftovers of 1 KiB would be 4 MiB.
    assert resident_bytes() - before < 3 << 20


def test_memory_of_python(client):
    everything(client, 20)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        everything(client, 100)
        gc.collect()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    ours = [tracemalloc.Filter(True, "*/warpfold/*")]
    grown = sum(line.size_diff for line in
                after.filter_traces(ours).compare_to(before.filter_traces(ours), "filename"))
    assert grown < 10_000


def test_arrays_are_let_go(client):
    x = numpy.ones(1000)
    alive = weakref.ref(x)
    result = client.reduce(x, ["sum"])
    del x
    gc.collect()
    assert alive() is None and result["sum"] == 1000
