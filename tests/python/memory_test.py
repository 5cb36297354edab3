# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Memory that the server reads by itself, and NumPy arrays in it."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import warpfold
from conftest import MAX_REGISTERED_BYTES, Server, stopped
from warpfold import _native, aio


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


def test_more_than_the_machine_has_is_not_taken_from_it(client):
    """The kernel would take pages until none are left, and then end processes."""
    with pytest.raises(warpfold.errors.ResourceExhaustedError, match="has no 1099511627776 bytes") as raised:
        client.empty(1 << 40, "int8")
    assert raised.value.reason == "TOO_MUCH_MEMORY"


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
    assert client.reduce(x, ["sum"], streams=2).way == "shared memory"


def test_memory_lives_as_long_as_any_part(client, near, path):
    x = filled(client, MAX_REGISTERED_BYTES // 8)
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
        assert way_of(client, filled(client, MAX_REGISTERED_BYTES // 16)) == "shared memory"


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


def test_a_client_that_is_closed_while_it_connects_keeps_no_connection(near, path, monkeypatch):
    client = warpfold.connect(near.address, memory_socket=path)

    class Closing:
        open = staticmethod(lambda *said, then=_native.MemoryConnection.open: client.close() or then(*said))

    monkeypatch.setattr(_native, "MemoryConnection", Closing)
    assert client.empty(3).shape == (3,)  # it was in progress
    assert client._memory._connection is None


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
                      (lambda: client.empty(1 << 60), RuntimeError),
                      (lambda: client.empty(1 << 62), warpfold.errors.ResourceExhaustedError),
                      (lambda: client.empty(2**63 - 1, "int8"), warpfold.errors.ResourceExhaustedError),
                      (lambda: client.empty(1 << 40, "int8"), warpfold.errors.ResourceExhaustedError),
                      (lambda: client.empty((2**40, 2**40)), warpfold.errors.ResourceExhaustedError),
                      (lambda: client.empty((0, 2**70)), warpfold.errors.ResourceExhaustedError)):
        with pytest.raises(kind):
            bad()
    for shape in (2.5, (2.0, 3), None):
        with pytest.raises(TypeError, match="shape must be a whole number, or a tuple of them, not"):
            client.empty(shape)
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


@pytest.mark.parametrize("connects", [False, True])
def test_signals_and_timeouts_end_the_wait_for_the_memory_socket(near, client, path, connects):
    kept = None if connects else filled(client)
    with stopped(near.process):
        timer = threading.Timer(0.3, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
        timer.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.empty(3)
        with pytest.raises(TimeoutError) as raised:
            client.empty(3, timeout=0.2)
        assert raised.value.reason == "DEADLINE" and time.monotonic() - begin < 20
        timer.join()
    # Nothing is left of what the server registered in vain.
    del kept
    gc.collect()
    assert way_of(client, filled(client, MAX_REGISTERED_BYTES // 8)) == "shared memory"


def test_memory_is_given_back_without_a_wait_for_a_server_that_hangs(near, client):
    arrays = [filled(client, MAX_REGISTERED_BYTES // 64) for _ in range(8)]
    with stopped(near.process):
        begin = time.monotonic()
        arrays.clear()
        gc.collect()
        assert time.monotonic() - begin < 5
    assert way_of(client, filled(client, MAX_REGISTERED_BYTES // 8)) == "shared memory"


def test_asyncio_cancels_what_waits_for_the_memory_socket(near, path):
    async def scenario():
        async with aio.connect(near.address, memory_socket=path) as client:
            kept = await client.empty(3)
            with stopped(near.process):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.empty(3), 0.2)
                with pytest.raises(TimeoutError):
                    await client.empty(3, timeout=0.2)
            assert (await client.empty(3)).shape == kept.shape

    asyncio.run(scenario())


_CLOSED_BY_A_HANDLER = """
import signal, sys, warpfold
address, path = sys.argv[1:]
for interval in range(1, 200):
    client = warpfold.connect(address, memory_socket=path)
    signal.signal(signal.SIGALRM, lambda *unused: client.close())
    signal.setitimer(signal.ITIMER_REAL, 1e-3 + 13e-6 * interval)
    try:
        while True:
            client.empty(1)
    except RuntimeError as error:
        assert "this client is closed" in str(error), error
"""


def test_a_handler_of_a_signal_closes_the_client_that_its_thread_uses(near, path):
    """It would wait for ever for a lock that its own thread holds."""
    subprocess.run([sys.executable, "-c", _CLOSED_BY_A_HANDLER, near.address, path], check=True, timeout=120)


def test_who_closes_a_client_in_the_middle_of_a_call_is_told_so(near, monkeypatch):
    with warpfold.connect(near.address) as client:
        monkeypatch.setattr("warpfold.forks.check", client.close)
        assert client.sum(numpy.ones(3)) == 3  # it had begun
        with pytest.raises(RuntimeError, match="this client is closed"):
            client.sum(numpy.ones(3))


_WITHOUT_DESCRIPTORS = """
import os, resource, sys
import numpy, warpfold

client = warpfold.connect(sys.argv[1], memory_socket=sys.argv[2])
client.sum(numpy.ones(3))
array = client.empty(3)
foreign = memoryview(array)
count = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (count - 1, count - 1))
try:
    os.open("/", os.O_RDONLY)
except OSError:
    print(client.reduce(array, ["sum"]).way, client.sum(numpy.asarray(foreign)))
"""


def test_shared_memory_needs_no_descriptors(near, path):
    """Python's modules need some when they are loaded."""
    done = subprocess.run([sys.executable, "-c", _WITHOUT_DESCRIPTORS, near.address, path], check=False,
                          timeout=120, capture_output=True, text=True)
    assert done.stdout == "shared memory 0.0\n", done.stderr
