# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays that the server keeps: NumPy's values, in parts, and what ends the arrays."""

import asyncio
import dataclasses
import inspect
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import warpfold
from calls_test import slow_pieces
from conftest import Server
from warpfold import aio, errors, resident

X = numpy.random.default_rng(8).normal(size=(3000, 7))


@pytest.fixture(scope="module")
def keeper():
    with Server("--resident_bytes=4194304", "--resident_owner_bytes=1048576") as server:
        yield server


@pytest.fixture
def client(keeper):
    with warpfold.connect(keeper.address) as client:
        yield client
        assert client.arrays() == []
        assert client.sum(X[0]) == pytest.approx(X[0].sum())


@pytest.mark.parametrize("cut", [lambda x: x, lambda x: x.T, lambda x: x[::-3], lambda x: x[5:6, 2],
                                 lambda x: x[:0], lambda x: (x * 100).astype("int16"), lambda x: x > 0])
def test_values_are_those_of_the_array_that_was_put(client, cut):
    x = cut(X)
    with client.put(x) as kept:
        assert (kept.shape, kept.dtype, kept.size, len(kept)) == (x.shape, x.dtype, x.size, len(x))
        result = kept.reduce(["sum", "count_nonzero"])
        assert result.way == "resident" and result.element_count == x.size
        assert result["sum"] == client.sum(x)
        if x.size:
            assert kept.max() == x.max() and kept.max().dtype == x.dtype
            assert client.argmin(kept) == x.argmin()
            assert kept.sum(keepdims=True).shape == (1,) * x.ndim


def test_parts_are_those_of_numpy(client):
    with client.put(X) as kept:
        for part in (slice(1000, None), slice(5), slice(-3, None), slice(7, 3), slice(2, 9000), slice(None)):
            assert kept[part].shape == X[part].shape
            assert kept[part].sum() == client.sum(X[part])
        assert kept[10:90][5:7].max() == X[15:17].max()
        assert kept[10:90][5:7].argmax(keepdims=True) == X[15:17].argmax()
        assert "2990, 7" in repr(kept[10:])


@pytest.mark.parametrize("shape", [(7, 3000), (-1, 7), (3000, -1), (50, 60, 7), (21000,), (1, 21000, 1)])
@pytest.mark.parametrize("as_tuple", [False, True])
def test_a_shape_for_an_array_that_is_known_by_its_token(client, keeper, shape, as_tuple):
    expected = X.reshape(shape)
    with client.put(X) as kept, warpfold.connect(keeper.address) as stranger:
        flat = stranger.array(kept.token)
        assert flat.shape == (21000,)
        shaped = flat.reshape(shape) if as_tuple else flat.reshape(*shape)
        assert shaped.shape == expected.shape and flat.shape == (21000,)
        assert (shaped.argmax(axis=-1) == expected.argmax(-1)).all()
        part = flat[700:1400].reshape(-1, 7)
        assert (part.sum(axis=1) == client.sum(X[100:200], axis=1)).all()
        assert shaped[:1].reshape(-1).max() == expected[:1].max()
        # Only the array's owner may delete it, and then all of it goes.
        assert not hasattr(shaped, "delete") and not hasattr(shaped, "__exit__")
        assert [info.nbytes for info in client.arrays()] == [X.nbytes]


def test_shapes_are_those_that_numpy_takes(client):
    for x in (X[:4, :3], X[:0], X[0, :1], X[0, 0]):
        with client.put(x) as kept:
            for shape in ((), (1,), (12,), (0,), (-1,), (3, -1), (0, -1), (-1, 0), (0, 3), (5, -1), (-1, -1),
                          (-2,), (2**40, 2**40), ([4, 3],), ((4, 3),), (4, (3,)), (numpy.int8(4), 3)):
                try:
                    expected = x.reshape(*shape).shape
                except (TypeError, ValueError) as error:
                    with pytest.raises(type(error)):
                        kept.reshape(*shape)
                else:
                    assert kept.reshape(*shape).shape == expected
            with pytest.raises(ValueError, match=r"cannot reshape array of size \d+ into shape \(5,7\)"):
                kept.reshape(5, 7)
            with pytest.raises(TypeError):
                kept.reshape(2.5)


def test_matrices(client):
    x = numpy.random.default_rng(9).normal(size=(40, 3, 3))
    with client.put(x, matrix=True) as kept:
        assert (kept.matrix_product() == client.matrix_product(x)).all()
        assert (kept[10:20].reduce(["max"], matrix=True)["max"] == x[10:20].max(0)).all()
        again = client.array(kept.token)
        assert again.shape == (40, 3, 3)
        assert (again.reshape(8, 5, 3, 3).matrix_product() == client.matrix_product(x)).all()
        with pytest.raises(ValueError, match="not of 2 x 2"):
            again.reshape(90, 2, 2).matrix_product()
        for call in (kept.sum, again[3:].argmax, lambda: client.sum(kept, -1), lambda: kept.reduce(["sum"])):
            with pytest.raises(ValueError, match=r"^the array was put as matrices of 3 x 3, which reduce\("):
                call()
    with client.put(x) as numbers:
        for call in (numbers.matrix_product, numbers[3:].matrix_product,
                     lambda: numbers.reduce(["sum"], matrix=True)):
            with pytest.raises(ValueError, match=r"put\(array, matrix=True\)"):
                call()


def test_pairs(client):
    x = numpy.random.default_rng(9).normal(size=(40, 2))
    with client.put(x) as numbers, pytest.raises(ValueError, match=r"put\(array\.reshape\(-1, 1, 2\), mat"):
        numbers.affine_compose()
    # What the message says.
    with client.put(x.reshape(-1, 1, 2), matrix=True) as kept:
        assert (kept.affine_compose() == client.affine_compose(x)).all()
    with client.put(x.reshape(-1, 2, 2), matrix=True) as others, pytest.raises(ValueError, match="of 1 x 2"):
        others.affine_compose()


def test_what_one_can_know_of_an_array(client, keeper):
    with client.put(X, ttl=50, owner="me") as kept, client.put(X[0]) as other:
        assert len(kept.token) == 16 and 40 < kept.expires_in <= 50
        assert repr(kept).startswith("<warpfold.ResidentArray float64 (3000, 7) id ")
        assert "owner 'me', expires in" in repr(kept) and kept.token.hex() not in repr(kept)
        assert [info.id for info in client.arrays()] == [kept.info.id, other.info.id]
        [mine] = client.arrays("me")
        assert (mine.owner, mine.type, mine.nbytes, mine.matrix) == ("me", "float64", X.nbytes, None)
        with warpfold.connect(keeper.address) as stranger:
            assert stranger.array(kept.token)[7:14].sum() == client.sum(X.reshape(-1)[7:14])
    assert client.arrays() == []


def test_arrays_that_are_gone(client, keeper):
    kept = client.put(X)
    part = kept[5:]
    kept.delete()
    with client.put(X, ttl=1e-12) as shortest:
        assert shortest.expires_in <= 1
    short = client.put(X, ttl=1)
    while client.arrays():
        time.sleep(0.05)
    with client.put(X) as twice:
        twice.delete()
    for call in (kept.sum, part.max, kept.delete, short.sum, lambda: client.array(kept.token),
                 lambda: client.array(b"x" * 16), lambda: client.array(b"")):
        with pytest.raises(LookupError) as raised:
            call()
        assert raised.value.code == "NOT_FOUND" and raised.value.reason == "UNKNOWN_MEMORY"
    with pytest.raises(KeyError), client.put(X):
        raise KeyError


def test_a_token_that_the_command_line_has_printed(client):
    with client.put(X) as kept:
        with pytest.raises(TypeError, match=r"pass bytes\.fromhex\(token\)"):
            client.array(kept.token.hex())
        assert client.array(bytes.fromhex(kept.token.hex())).sum() == client.sum(X)


def test_tokens_are_of_one_server(client):
    with client.put(X) as kept, Server() as server, warpfold.connect(server.address) as other:
        for call in (lambda: other.sum(kept), lambda: other.array(kept.token)):
            with pytest.raises(errors.NotFoundError):
                call()
        with pytest.raises(NotImplementedError) as raised:
            other.put(X)
        assert raised.value.reason == "NO_RESIDENT_ARRAYS"


def test_what_cannot_be_asked_for(client, keeper):
    with client.put(X) as kept, client.put(numpy.float64(3)) as number:
        assert number.shape == () and number.sum() == 3
        for bad, kind in ((lambda: kept[::2], ValueError), (lambda: kept[::-1], ValueError),
                          (lambda: kept[3], TypeError), (lambda: kept[1:2, 3], TypeError),
                          (lambda: list(kept), TypeError), (lambda: number[1:], TypeError),
                          (lambda: kept.sum(dtype="int32"), TypeError),
                          (lambda: kept.sum(3), ValueError),
                          (lambda: kept.reduce("sum"), TypeError), (kept.bit_and, ValueError),
                          (lambda: client.put(kept), TypeError), (lambda: client.put(iter([X])), TypeError),
                          (lambda: client.put(["text"]), TypeError),
                          (lambda: client.put(X, ttl=0), ValueError),
                          (lambda: client.put(X, ttl=float("nan")), ValueError),
                          (lambda: client.put(X, owner="\n"), ValueError),
                          (lambda: client.put(X, matrix=True), ValueError),
                          (lambda: client.array("token"), TypeError),
                          (lambda: client.put(numpy.ones(1 << 18)), RuntimeError)):
            with pytest.raises(kind):
                bad()
        for pieces in ([kept, X], [X, kept[1:]]):
            with pytest.raises(TypeError, match="a kept array is no piece: reduce it by itself"):
                client.sum(iter(pieces))
        assert kept.sum() == client.sum(X)
        assert len(client.arrays()) == 2
    with warpfold.connect([keeper.address] * 2) as two, client.put(X) as kept:
        for call in (lambda: two.put(X), lambda: two.array(kept.token), two.arrays):
            with pytest.raises(ValueError, match=r"^an array is kept by one server.* one target"):
                call()


def test_progress_and_names(client):
    told = []
    with client.put(X, progress=lambda done, total: told.append((done, total))) as kept:
        assert told[-1] == (X.nbytes, X.nbytes)
        assert kept.sum(progress=lambda done, total: told.append(total)) == client.sum(X) and told[-1] is None
    methods = {name for name, _ in inspect.getmembers(warpfold.Client, inspect.isfunction)}
    methods -= {"put", "array", "arrays", "empty", "info", "is_serving", "close"}
    methods -= {"partial", "merge", "merge_to_state"}
    assert {name for name in methods if not name.startswith("_")} <= set(dir(warpfold.ArrayPart))
    assert "array" not in inspect.signature(warpfold.ArrayPart.sum).parameters


def test_what_the_body_raises_is_heard_also_where_the_array_cannot_be_deleted(keeper):
    with pytest.raises(KeyError, match="mine"), warpfold.connect(keeper.address) as other, \
            other.put(X, ttl=1):
        other.close()
        raise KeyError("mine")
    with pytest.raises(RuntimeError, match="this client is closed"), \
            warpfold.connect(keeper.address) as other, other.put(X, ttl=1):
        other.close()

    async def scenario():
        async with aio.connect(keeper.address) as other, await other.put(X, ttl=1):
            other.close()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(scenario())
    with warpfold.connect(keeper.address) as client:
        while client.arrays():
            time.sleep(0.05)


_IN_A_FORK = """
import os, sys, numpy, warpfold
with warpfold.connect(sys.argv[1]) as client, client.put(numpy.ones(5)):
    child = os.fork()
    if child == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_forked_process_ends_as_it_says(keeper):
    done = subprocess.run([sys.executable, "-c", _IN_A_FORK, keeper.address], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


def test_asyncio(keeper):
    async def scenario():
        async with aio.connect(keeper.address) as client:
            async with await client.put(X, owner="me") as kept:
                sums = await asyncio.gather(kept.sum(), kept[5:].sum(), client.sum(X), client.sum(X[5:]))
                assert sums[:2] == sums[2:]
                assert (await kept.reduce(["max"])).way == "resident"
                again = await client.array(kept.token)
                assert await again.max() == X.max()
                assert [info.owner for info in await client.arrays()] == ["me"]
                await kept.delete()
            with pytest.raises(errors.NotFoundError):
                await kept.sum()
            with pytest.raises(TypeError):
                await client.put(slow_pieces(1))

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("total_by", ["client", "asyncio"])
def test_an_array_is_deleted_whose_put_raises(client, keeper, kind, total_by):
    def progress(done, total):
        if done == total:
            raise kind("the bar is closed")

    async def scenario():
        async with aio.connect(keeper.address) as other:
            await other.put(X, progress=progress)

    with pytest.raises(kind, match="the bar is closed"):
        if total_by == "client":
            client.put(X, progress=progress)
        else:
            asyncio.run(scenario())
    assert client.arrays() == []


def test_an_array_is_deleted_of_whose_put_a_signal_leaves_no_answer(client, keeper):
    """The handler raises when the call has returned, and before its result is stored anywhere."""

    class Interrupted:
        def __init__(self, native):
            self._native = native

        def __getattr__(self, name):
            return getattr(self._native, name)

        def put(self, *arguments):
            self._native.put(*arguments)
            signal.raise_signal(signal.SIGINT)

    with warpfold.connect(keeper.address) as other:
        other._native = Interrupted(other._native)
        with pytest.raises(KeyboardInterrupt):
            other.put(X)
    assert client.arrays() == []


@pytest.mark.parametrize("closed", [False, True])
def test_a_put_that_is_cancelled_too_late_is_deleted(client, keeper, monkeypatch, closed):
    kept, cancelled = threading.Event(), threading.Event()

    def putting(*arguments):
        put = resident.putting(*arguments)

        def work(native, stop):
            try:
                return put.run(native, None)
            finally:  # otherwise the loop would wait for ever for a put that has failed
                kept.set()
                cancelled.wait()

        return dataclasses.replace(put, run=work)

    async def scenario():
        async with aio.connect(keeper.address) as other:
            task = asyncio.create_task(other.put(X))
            try:
                await asyncio.to_thread(kept.wait)
                assert len(client.arrays()) == 1
                if closed:
                    other.close()
                task.cancel()
                await asyncio.sleep(0)
            finally:  # otherwise the thread above, and the loop, would wait for ever if the test has failed
                cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert client.arrays() == []

    monkeypatch.setattr(aio, "putting", putting)
    asyncio.run(scenario())
