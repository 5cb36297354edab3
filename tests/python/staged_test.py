# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU, which is the host here, that are copied to it part by part: along axes and as a whole."""

import asyncio
import itertools
import time

import numpy
import pytest

import warpfold
from axis_test import METHODS
from conftest import OnGpu
from warpfold import aio, arrays, errors
from warpfold.arrays import Elements, Reference

PIECE_BYTES = 64  # 8 elements


class Forgotten:
    """The memory of a client whose server was another one until now: it knows none of that one's tokens."""

    def of_call(self, settings, stop):
        return self

    def refer(self, elements):
        pass

    def close(self):
        pass

    def of_gpu(self, array):
        kind = array.array.dtype
        return Elements(kind.name, kind, "gpu memory", shape=array.shape, owner=array,
                        reference=Reference(b"0" * 16, 0, array.array.size))


class Slow(OnGpu):
    """Takes its time to be copied, and reports which of its parts is copied."""

    copying = 0
    copied = 0

    def __getitem__(self, part):
        return Slow(self.array[part])

    def get(self):
        Slow.copying = Slow.copied + 1
        time.sleep(0.2)
        Slow.copied, Slow.copying = Slow.copying, 0
        return self.array.copy()


@pytest.fixture(params=["staged", "forgotten"])
def staging(near, request, monkeypatch):
    """A client that stages, from the beginning or once the server has said that it knows no such memory."""
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE_BYTES)
    OnGpu.largest = 0
    with warpfold.connect(near.address) as client:
        if request.param == "forgotten":
            client._memory = Forgotten()
        yield client
    assert OnGpu.largest <= PIECE_BYTES // 8


@pytest.mark.parametrize("shape", [(), (1,), (8,), (9,), (40,), (3, 2), (20, 3), (3, 20), (3, 8), (2, 3, 4),
                                   (3, 1, 9), (2, 7, 3), (2, 2, 20), (5, 2, 2, 3), (0,), (3, 0), (0, 3),
                                   (40, 1, 1)])
def test_last_axes_and_kept_dimensions(staging, shape):
    x = numpy.random.default_rng(6).normal(size=shape)
    for first, keepdims in itertools.product(range(len(shape) + 1), (False, True)):
        axis = tuple(range(first, len(shape)))
        got = staging.sum(OnGpu(x), axis, keepdims=keepdims)
        want = staging.sum(x, axis, keepdims=keepdims)
        assert numpy.shape(got) == numpy.shape(want) == x.sum(axis, keepdims=keepdims).shape
        numpy.testing.assert_array_equal(got, want)
        if 0 not in shape:
            for field, wanted in zip(staging.minmax(OnGpu(x), axis), staging.minmax(x, axis), strict=True):
                numpy.testing.assert_array_equal(field, wanted)
    assert staging.sum(OnGpu(x), keepdims=True).shape == (1,) * len(shape)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "bool"])
@pytest.mark.parametrize("shape", [(6, 5), (3, 20)])  # several rows to a piece, several pieces to a row
def test_every_method(staging, name, dtype, shape):
    x = (numpy.random.default_rng(7).normal(size=shape) > 0).astype(dtype)
    got, want = (getattr(staging, name)(array, -1) for array in (OnGpu(x), x))
    assert got.dtype == want.dtype
    numpy.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(6, 5), (3, 20)])
def test_errors_and_options(staging, shape):
    x = numpy.full(shape, 2**62)
    with pytest.raises(OverflowError):
        staging.sum(OnGpu(x), -1)
    numpy.testing.assert_array_equal(staging.sum(OnGpu(x), -1, overflow="wrap"), x.sum(-1))
    numpy.testing.assert_array_equal(staging.max(OnGpu(x), -1), x.max(-1))
    with pytest.raises(ValueError, match="last axes only"):
        staging.sum(OnGpu(x), 0)
    with pytest.raises(errors.InvalidArgumentError):
        staging.min(OnGpu(x[:0]), (0, 1))
    with pytest.raises(numpy.exceptions.AxisError):
        staging.sum(OnGpu(x), 2)


@pytest.mark.parametrize("shape", [(6, 5), (3, 20)])
def test_progress_counts_all_parts(staging, shape):
    x = numpy.ones(shape, "int16")
    told = []
    staging.sum(OnGpu(x), -1, progress=lambda sent, total: told.append(sent))
    assert told == sorted(told) and told[-1] == x.nbytes


@pytest.mark.parametrize("shape", [(6, 5), (3, 20)])
def test_the_timeout_is_of_all_parts(staging, shape, monkeypatch):
    copy = OnGpu.get
    monkeypatch.setattr(OnGpu, "get", lambda self: time.sleep(0.1) or copy(self))
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        staging.sum(OnGpu(numpy.ones(shape)), -1, timeout=0.25)
    assert time.monotonic() - begin < 5


def test_parts_of_matrices(staging):
    x = numpy.random.default_rng(8).normal(size=(3, 5, 5))  # each of these is larger than a piece
    got = staging.reduce(OnGpu(x), ["sum", "matrix_product"], matrix=True)
    assert got == staging.reduce(x, ["sum", "matrix_product"], matrix=True) and got.way == "staged"


def test_asyncio(near, monkeypatch):
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE_BYTES)
    x = numpy.arange(60.0).reshape(3, 20)

    async def scenario():
        async with aio.connect(near.address) as client:
            numpy.testing.assert_array_equal(await client.sum(OnGpu(x), axis=1), x.sum(1))

    asyncio.run(scenario())


@pytest.mark.parametrize(("call", "part"), [
    (lambda client, array: client.sum(array), 1), (lambda client, array: client.sum(array), 2),
    (lambda client, array: client.sum(array, axis=-1), 1),
    (lambda client, array: client.sum(array, axis=-1), 2),
    (lambda client, array: client.put(array), 1), (lambda client, array: client.partial(array, ["sum"]), 1)])
def test_a_cancelled_awaitable_waits_for_the_copy(near, monkeypatch, call, part):
    """Afterwards the array's owner may write to it, or free it."""
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(Slow, "copied", 0)

    async def cancelled():
        async with aio.connect(near.address) as client:
            task = asyncio.ensure_future(call(client, Slow(numpy.ones((20, 3)))))
            while Slow.copying != part:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not Slow.copying

    asyncio.run(cancelled())


@pytest.mark.parametrize("shape", [(3, 4), (0, 5), (20, 3), (3, 20)])
@pytest.mark.parametrize("axis", [None, -1])
def test_progress_ends_with_the_whole(near, monkeypatch, shape, axis):
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE_BYTES)
    told = []
    with warpfold.connect(near.address) as client:
        client.sum(OnGpu(numpy.ones(shape)), axis=axis, progress=lambda *one: told.append(one))
    assert told[-1] == (numpy.ones(shape).nbytes, numpy.ones(shape).nbytes)
