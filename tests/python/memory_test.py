# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that the server reads by itself: NumPy arrays in it, and arrays on a GPU, of which the driver is a
stand-in here."""

import asyncio
import ctypes
import gc
import os
import sys

import numpy
import pytest

import warpfold
from conftest import Server
from warpfold import _native, aio, gpu

MAX_BYTES = 1 << 20


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return str(tmp_path_factory.mktemp("socket") / "memory")


@pytest.fixture(scope="module")
def near(path):
    with Server(f"--memory_socket={path}", f"--max_registered_bytes={MAX_BYTES}") as server:
        yield server


@pytest.fixture
def client(near, path):
    with warpfold.connect(near.address, memory_socket=path) as client:
        yield client


def filled(client, shape=(300, 7), dtype="float64"):
    array = client.empty(shape, dtype)
    array[...] = (numpy.random.default_rng(2).normal(size=shape) * 50).astype(dtype)
    return array


def way_of(client, array):
    result = client.reduce(array, ["sum", "argmax"])
    assert result["sum"] == client.sum(array.copy()) and result["argmax"] == array.argmax()
    assert result.element_count == array.size
    return result.way


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool", "float16", numpy.uint32])
def test_parts_go_by_reference_where_they_lie(client, dtype):
    x = filled(client, dtype=dtype)
    assert x.dtype == dtype and x.shape == (300, 7) and x.flags.writeable
    other = filled(client, 90)
    for part in (x, x[7:], x[5, 2:4], x.reshape(-1)[1:], x.view(), numpy.asarray(memoryview(x)), other[3:]):
        assert way_of(client, part) == "shared memory"
    assert way_of(client, x.T) == way_of(client, x[::2]) == "copied"
    assert way_of(client, x.copy()) == "memory"
    for shape in (numpy.int64(3), [3], numpy.array([3]), (numpy.uint8(3),)):
        assert client.empty(shape).shape == (3,)
    assert client.sum(x[:0]) == client.sum(client.empty(0)) == client.sum(client.empty((3, 0))) == 0


def test_matrices_and_new_memory_of_zeros(client):
    x = client.empty((20, 3, 3))
    assert not x.any()
    x[...] = numpy.random.default_rng(3).normal(size=x.shape)
    assert (client.matrix_product(x[2:]) == client.matrix_product(x[2:].copy())).all()


def test_memory_lives_as_long_as_any_part(client, near, path):
    x = filled(client, MAX_BYTES // 8)
    with pytest.raises(RuntimeError) as raised:
        client.empty(1)
    assert raised.value.reason == "TOO_MUCH_MEMORY"
    part = x[5:10]
    del x
    gc.collect()
    assert way_of(client, part) == "shared memory"
    with pytest.raises(RuntimeError):
        client.empty(1)
    del part
    gc.collect()
    for _ in range(50):
        assert way_of(client, filled(client, MAX_BYTES // 16)) == "shared memory"


def test_other_clients_send_it(client, near):
    with warpfold.connect(near.address) as other:
        assert way_of(other, filled(client)) == "memory"
        with pytest.raises(RuntimeError, match="memory_socket="):
            other.empty(3)


def test_a_new_server(tmp_path):
    path = tmp_path / "socket"
    with Server(f"--memory_socket={path}") as server:
        address = server.address
        client = warpfold.connect(address, memory_socket=path)
        x = filled(client)
        assert way_of(client, x) == "shared memory"
    with pytest.raises(ConnectionError):
        client.empty(3)
    with Server(f"--memory_socket={path}", listen=address):
        assert way_of(client, x) == "memory"
        assert way_of(client, filled(client)) == "shared memory"
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.empty(3)


def test_a_forked_process_gives_nothing_back(client):
    x = filled(client)
    child = os.fork()
    if child == 0:
        del x
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert way_of(client, x) == "shared memory"


def test_bfloat16(client, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = client.empty(5, "bfloat16")
    assert x.dtype == ml_dtypes.bfloat16
    x[:] = [1, 2, 3, 4, 5]
    assert client.reduce(x, ["sum"]).way == "shared memory" and client.max(x) == 5
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="pip install ml_dtypes"):
        client.empty(5, "bfloat16")


def test_what_cannot_be_had(client, near, tmp_path):
    for bad, kind in ((lambda: client.empty(3, "O"), TypeError), (lambda: client.empty(3, ">f8"), TypeError),
                      (lambda: client.empty(-1), ValueError), (lambda: client.empty((2, -1)), ValueError),
                      (lambda: client.empty("3"), TypeError), (lambda: client.empty(2.5), TypeError),
                      (lambda: client.empty((2.0, 3)), TypeError),
                      (lambda: client.empty(1 << 60), RuntimeError)):
        with pytest.raises(kind):
            bad()
    with warpfold.connect(near.address, memory_socket=tmp_path / "nobody") as nobody:
        with pytest.raises(ConnectionError):
            nobody.empty(3)
        assert nobody.sum(numpy.ones(3)) == 3
    with pytest.raises(ValueError, match="one target"):
        warpfold.connect([near.address] * 2, memory_socket="x")


def test_asyncio(near, path):
    async def scenario():
        async with aio.connect(near.address, memory_socket=path) as client:
            x = await client.empty(1000, "int64")
            x[:] = range(1000)
            result = await client.reduce(x[1:], ["sum"])
            assert result.way == "shared memory" and result["sum"] == 499500

    asyncio.run(scenario())


class Driver:
    """Says that host memory is a GPU's."""

    def __init__(self, begin, nbytes, refuses=""):
        self.begin, self.nbytes, self.refuses = begin, nbytes, refuses
        self.asked = []

    def __getattr__(self, name):
        def function(*arguments):
            self.asked.append(name)
            if name == self.refuses:
                return 1
            if name == "cuPointerGetAttribute":
                arguments[0]._obj.value = 5
            if name == "cuMemGetAddressRange_v2":
                arguments[0]._obj.value, arguments[1]._obj.value = self.begin, self.nbytes
            if name == "cuIpcGetMemHandle":
                ctypes.memmove(arguments[0], b"h" * 64, 64)
            return 0

        return function


class OnGpu:
    def __init__(self, array):
        self.array, self.shape = array, array.shape
        self.__cuda_array_interface__ = array.__array_interface__

    def get(self):
        return self.array.copy()


class Connection:
    """Opens a stand-in's memory, which is shared memory."""

    def __init__(self, real, shared):
        self.real, self.shared, self.opened = real, shared, []

    def register_gpu(self, handle, byte_offset, byte_count):
        assert (handle, byte_offset) == (b"h" * 64, 0)
        self.opened.append(byte_count)
        return _Registered(self.shared.token)


class _Registered:
    def __init__(self, token):
        self.token = token


def test_arrays_on_a_gpu(client, path, monkeypatch):
    real = _native.MemoryConnection.open(path)
    shared = real.allocate(80_000)
    x = shared.bytes().view("float64")
    x[:] = numpy.random.default_rng(4).normal(size=10_000)
    driver = Driver(shared.address, 80_000)
    monkeypatch.setattr(gpu, "_driver", lambda: driver)
    connection = Connection(real, shared)
    client._memory._connection = connection
    array = OnGpu(x[100:])
    for _ in range(3):
        result = client.reduce(array, ["sum", "first"])
        assert result.way == "gpu memory"
        assert result["first"] == x[100] and result["sum"] == client.sum(x[100:].copy())
    assert connection.opened == [80_000]  # once for the allocation
    assert driver.asked.count("cuCtxSynchronize") == 3  # and each time for what the GPU has yet to do
    assert driver.asked.count("cuCtxPushCurrent_v2") == driver.asked.count("cuCtxPopCurrent_v2") == 4
    assert client.reduce(OnGpu(x[::2]), ["sum"]).way == "staged"
    del array, result
    gc.collect()
    assert client._memory._holders == {} and len(client._memory._allocations) == 0
    assert client.sum(OnGpu(x)) == client.sum(x.copy()) and len(connection.opened) == 2


@pytest.mark.parametrize("refuses", ["", "cuPointerGetAttribute", "cuMemGetAddressRange_v2",
                                     "cuCtxSynchronize", "cuCtxPushCurrent_v2", "cuIpcGetMemHandle"])
def test_arrays_on_a_gpu_that_cannot_be_shared_are_staged(client, monkeypatch, refuses):
    """Without a refusal of the driver's, the server's: it computes on the CPU."""
    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data, x.nbytes, refuses)
    monkeypatch.setattr(gpu, "_driver", lambda: driver)
    result = client.reduce(OnGpu(x), ["sum"])
    assert result.way == "staged" and result["sum"] == x.sum()


def test_an_array_is_staged_once_the_gpu_has_written_it(near, monkeypatch):
    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data, x.nbytes)
    monkeypatch.setattr(gpu, "_driver", lambda: driver)
    with warpfold.connect(near.address) as client:
        assert client.sum(OnGpu(x)) == x.sum() and driver.asked.count("cuCtxSynchronize") == 1


def test_without_a_driver_arrays_are_staged(client):
    assert client.reduce(OnGpu(numpy.arange(100.0)), ["sum"]).way == "staged"
