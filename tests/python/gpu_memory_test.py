# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU, which the server reads by itself or which are staged. The driver is a stand-in here."""

import asyncio
import ctypes
import gc
import time
import types
import weakref

import numpy
import pytest

import dlpack
import warpfold
from conftest import stopped
from warpfold import _native, aio, gpu, memory
from warpfold.calls import settings_of

SETTINGS = settings_of({}).native()


@pytest.fixture
def client(near, path):
    with warpfold.connect(near.address, memory_socket=path) as client:
        yield client


BUS_ID = b"0000:0f:00.0"
POINTER = ctypes.POINTER(ctypes.c_void_p)
FUNCTIONS = {
    "cuPointerGetAttribute": (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64),
    "cuDevicePrimaryCtxRetain": (POINTER, ctypes.c_int),
    "cuDevicePrimaryCtxRelease_v2": (ctypes.c_int,),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER,),
    "cuCtxSynchronize": (),
    "cuMemGetAddressRange_v2": (ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_size_t),
                                ctypes.c_uint64),
    "cuIpcGetMemHandle": (ctypes.c_void_p, ctypes.c_uint64),
    "cuCtxGetDevice": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGetPCIBusId": (ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
    "cuMemcpyHtoD_v2": (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t),
}


class Driver:
    """Claims that host memory is a GPU's, and returns what the driver's functions do: 0 for success."""

    PRIMARY = 6  # a context

    def __init__(self, begin, nbytes, refuses="", context=5):
        self.begin, self.nbytes, self.refuses, self.context = begin, nbytes, refuses, context
        self.number = 1
        self.asked = []
        self.pushed = []
        self._kept = []
        self.native = _native.GpuDriver(self._address_of)

    def _address_of(self, name):
        def function(*arguments):
            self.asked.append(name)
            if name == self.refuses:
                return 1
            return getattr(self, name, lambda *unused: 0)(*arguments) or 0

        function = ctypes.CFUNCTYPE(ctypes.c_int, *FUNCTIONS[name])(function)
        self._kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value

    def cuPointerGetAttribute(self, answer, attribute, address):
        kind, value = {1: (ctypes.c_void_p, self.context), 7: (ctypes.c_uint64, self.number),
                       9: (ctypes.c_int, 3)}[attribute]
        if not self.begin <= address < self.begin + self.nbytes or value is None:
            return 1
        kind.from_address(answer).value = value
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):
        assert device == 3
        context[0] = self.PRIMARY

    def cuCtxPushCurrent_v2(self, context):
        self.pushed.append(context)

    def cuMemGetAddressRange_v2(self, begin, nbytes, address):
        begin[0], nbytes[0] = self.begin, self.nbytes

    def cuIpcGetMemHandle(self, handle, address):
        assert address == self.begin
        ctypes.memmove(handle, b"h" * 64, 64)

    def cuCtxGetDevice(self, device):
        device[0] = 3

    def cuDeviceGetPCIBusId(self, name, nbytes, device):
        assert device == 3 and nbytes > len(BUS_ID)
        ctypes.memmove(name, BUS_ID, len(BUS_ID) + 1)

    def cuMemcpyHtoD_v2(self, to, source, nbytes):
        assert self.begin <= to and to + nbytes <= self.begin + self.nbytes
        ctypes.memmove(to, source, nbytes)

    def times(self, name):
        return self.asked.count(name)


class OnGpu:
    def __init__(self, array):
        self.array, self.shape = array, array.shape
        self.__cuda_array_interface__ = array.__array_interface__

    def get(self):
        return self.array.copy()


class Connection:
    """Opens a stand-in's memory, which is shared memory."""

    def __init__(self, real, shared):
        self.real, self.shared, self.opened, self.for_results = real, shared, [], []

    def register_gpu(self, handle, pci_bus_id, byte_offset, byte_count, for_results, settings, stop):
        assert (handle, pci_bus_id, byte_offset) == (b"h" * 64, BUS_ID.decode(), 0)
        self.opened.append(byte_count)
        self.for_results.append(for_results)
        registered = _Registered(self.shared.token)
        self.registered, self.stop = weakref.ref(registered), stop
        return registered


class _Registered:
    def __init__(self, token):
        self.token = token


def test_arrays_on_a_gpu(client, path, monkeypatch):
    real = _native.MemoryConnection.open(path, SETTINGS, None)
    shared = real.allocate(80_000, False, SETTINGS, None)
    x = shared.bytes().view("float64")
    x[:] = numpy.random.default_rng(4).normal(size=10_000)
    driver = Driver(shared.address, 80_000)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    connection = Connection(real, shared)
    client._memory._connection = connection
    array = OnGpu(x[100:])
    for _ in range(3):
        result = client.reduce(array, ["sum", "first"])
        assert result.way == "gpu memory"
        assert result["first"] == x[100] and result["sum"] == client.sum(x[100:].copy())
    assert connection.opened == [80_000]  # once for the allocation
    assert driver.times("cuCtxSynchronize") == 3  # each time for what the GPU has yet to do
    assert driver.times("cuCtxPushCurrent_v2") == driver.times("cuCtxPopCurrent_v2") == 4
    assert client.reduce(OnGpu(x[::2]), ["sum"]).way == "staged"
    del array, result
    gc.collect()
    assert client._memory._holders == {} and len(client._memory._opened) == 0
    assert client.sum(OnGpu(x)) == client.sum(x.copy()) and len(connection.opened) == 2


@pytest.fixture
def lent(path, monkeypatch):
    """Lends a client a stand-in's memory."""
    real = _native.MemoryConnection.open(path, SETTINGS, None)
    shared = real.allocate(8_000, False, SETTINGS, None)
    driver = Driver(shared.address, 8_000)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    return Connection(real, shared)


@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_closed_client_gives_back_what_the_server_opened_though_its_array_lives(
        near, path, lent, monkeypatch, is_under_way):
    client = warpfold.connect(near.address, memory_socket=path)
    client._memory._connection = lent
    if is_under_way:
        monkeypatch.setattr(lent, "register_gpu",
                            lambda *said, then=lent.register_gpu: client.close() or then(*said))
    array = OnGpu(lent.shared.bytes())
    assert client.reduce(array, ["sum"]).way == "gpu memory"
    gc.collect()
    assert (lent.registered() is None) == is_under_way
    client.close()
    gc.collect()
    assert lent.registered() is None and array.shape == (8_000,)


def test_a_cancelled_call_does_not_go_on_to_register(near, path, lent):
    async def scenario():
        async with aio.connect(near.address, memory_socket=path) as client:
            client._memory._connection = lent
            assert (await client.reduce(OnGpu(lent.shared.bytes()), ["sum"])).way == "gpu memory"

    asyncio.run(scenario())
    lent.stop.request()
    with pytest.raises(warpfold.errors.CancelledError):
        lent.real.register_gpu(b"h" * 64, "", 0, 8, False, SETTINGS, lent.stop)


def test_the_timeout_counts_the_wait_for_a_memory_socket_that_hangs(near, client, server, monkeypatch):
    x = numpy.arange(1000.0)
    driver = Driver(x.ctypes.data, x.nbytes)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    with stopped(near.process), warpfold.connect(server.address, memory_socket=client._memory._path) as other:
        for _ in range(2):  # connected or not
            other._memory._skipped_until = 0.0
            with pytest.raises(TimeoutError) as raised:
                other.reduce(OnGpu(x), ["sum"], timeout=0.2)
            assert raised.value.reason == "DEADLINE"


def test_an_array_on_a_gpu_is_sent_to_a_server_whose_memory_socket_hangs(near, client, server, monkeypatch):
    x = numpy.arange(1000.0)
    driver = Driver(x.ctypes.data, x.nbytes)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    with stopped(near.process), warpfold.connect(server.address, memory_socket=client._memory._path) as other:
        begin = time.monotonic()
        result = other.reduce(OnGpu(x), ["sum"], timeout=60)
        assert result["sum"] == x.sum() and result.way == "staged" and time.monotonic() - begin < 20


def ways_and_seconds(client, array, calls):
    for _ in range(calls):
        begin = time.monotonic()
        yield client.reduce(array, ["sum"]).way, time.monotonic() - begin


def test_a_memory_socket_that_hangs_is_left_alone_for_a_while(near, client, server, lent, monkeypatch):
    monkeypatch.setattr(memory, "_SKIPPED_S", 30.0)
    array = OnGpu(lent.shared.bytes())
    with stopped(near.process), warpfold.connect(server.address, memory_socket=client._memory._path) as other:
        (way, first_s), *later = ways_and_seconds(other, array, 4)
        assert way == "staged" and first_s >= 0.9
        assert [way for way, _ in later] == ["staged"] * 3 and sum(seconds for _, seconds in later) < 0.9
    client._memory._connection = lent
    client._memory._skipped_until = time.monotonic() + 30
    assert client.reduce(array, ["sum"]).way == "staged"
    client._memory._skipped_until = time.monotonic()  # its time is over
    assert client.reduce(array, ["sum"]).way == "gpu memory"


def test_what_the_server_refused_is_not_asked_at_each_call(client, lent, monkeypatch):
    asked = []

    def refuse(*unused):
        asked.append(driver.number)
        raise warpfold.errors.InvalidArgumentError("of another GPU", "BAD_MEMORY")

    monkeypatch.setattr(memory, "_MOST_REFUSED", 2)
    driver = Driver(lent.shared.address, 8_000)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    client._memory._connection = lent
    array = OnGpu(lent.shared.bytes())
    with monkeypatch.context() as patch:
        patch.setattr(lent, "register_gpu", refuse)
        for number in (1, 1, 2, 2, 3, 3, 2):
            driver.number = number
            assert client.reduce(array, ["sum"]).way == "staged"
        assert asked == [1, 2, 3] and {allocation.number for allocation in client._memory._refused} == {2, 3}
    driver.number = 4  # another allocation
    assert client.reduce(array, ["sum"]).way == "gpu memory"
    driver.number = 3
    assert client.reduce(array, ["sum"]).way == "staged"
    client._memory._refused[(3, False)] = time.monotonic()  # its time is over
    assert client.reduce(array, ["sum"]).way == "gpu memory"


def test_what_was_opened_is_given_back_without_the_lock(near, path, lent):
    class Registered:
        token = lent.shared.token

        def __del__(self):
            were_locked.append(client._memory._lock._is_owned())

    were_locked = []
    client = warpfold.connect(near.address, memory_socket=path)
    client._memory._connection = lent
    lent.register_gpu = lambda *unused: Registered()
    array = OnGpu(lent.shared.bytes())
    assert client.reduce(array, ["sum"]).way == "gpu memory"
    gc.collect()
    assert were_locked == []
    client.close()
    assert were_locked == [False]


def test_another_allocation_at_the_same_address_is_another_one(client, path, monkeypatch):
    """The array that lies in it may be the same object, like one that a library has filled anew."""
    real = _native.MemoryConnection.open(path, SETTINGS, None)
    old, new = (real.allocate(8_000, False, SETTINGS, None) for _ in range(2))
    old.bytes()[:] = 1
    new.bytes()[:] = 2
    driver = Driver(old.address, 8_000)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    client._memory._connection = Connection(real, old)
    array = OnGpu(old.bytes())
    assert client.max(array) == 1
    driver.number += 1
    client._memory._connection = Connection(real, new)
    assert client.max(array) == 2
    assert len(client._memory._opened) == 1  # the old one was given back


@pytest.mark.parametrize("what, is_there", [
    ({}, True), ({"strides": None}, True), ({"strides": (24, 8)}, True), ({"strides": (8, 16)}, False),
    ({"strides": (48, 8)}, False), ({"strides": (24, -8)}, False), ({"mask": object()}, False),
    ({"shape": (0, 3)}, False), ({"typestr": ">f8"}, False), ({"typestr": "<c16"}, False)])
def test_what_numbas_protocol_says_of_a_place(what, is_there):
    array = OnGpu(numpy.ones((2, 3)))
    array.__cuda_array_interface__ = {"data": (640, False), "shape": (2, 3), "typestr": "<f8", **what}
    assert gpu.place_of(array) == (gpu.Place(640, "float64", (2, 3)) if is_there else None)


class OnAnotherGpu(OnGpu):
    """PyTorch exports a tensor only if its GPU is the thread's current one."""

    def __dlpack_device__(self):
        return dlpack.CUDA, 1

    def __dlpack__(self, **options):
        raise BufferError("Can't export tensors on a different CUDA device index")


def test_an_array_that_dlpack_does_not_export_is_found_by_numbas_protocol(client, lent):
    client._memory._connection = lent
    x = lent.shared.bytes()
    x[:] = 3
    result = client.reduce(OnAnotherGpu(x), ["sum"])
    assert (result.way, result["sum"]) == ("gpu memory", 24_000)


def test_an_array_whose_type_neither_protocol_has_is_somewhere_else(monkeypatch):
    class OfFloat8(OnAnotherGpu):
        @property
        def __cuda_array_interface__(self):
            raise KeyError("torch.float8_e4m3fn")

    array = OfFloat8.__new__(OfFloat8)
    monkeypatch.setattr(gpu, "_driver", lambda: Driver(0, 8).native)
    assert gpu.place_of(array) is None
    gpu.finish(array)


@pytest.mark.parametrize("typestr", ["<V2", "<f2"])
def test_bfloat16_by_numbas_protocol(typestr):
    """The protocol does not have this type. PyTorch has said either."""
    array = types.SimpleNamespace(dtype="torch.bfloat16", __cuda_array_interface__={
        "data": (640, False), "shape": (3,), "typestr": typestr})
    assert gpu.place_of(array) == gpu.Place(640, "bfloat16", (3,))
    with pytest.raises(TypeError, match=r"cannot be written to: .* and that NumPy has"):
        gpu.target_of(array)


@pytest.mark.parametrize("refuses", ["", "cuPointerGetAttribute", "cuMemGetAddressRange_v2",
                                     "cuCtxSynchronize", "cuCtxPushCurrent_v2", "cuIpcGetMemHandle"])
def test_arrays_on_a_gpu_that_cannot_be_shared_are_staged(client, monkeypatch, refuses):
    """Without an error from the driver, there is the server's: it computes on the CPU."""
    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data, x.nbytes, refuses)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    result = client.reduce(OnGpu(x), ["sum"])
    assert result.way == "staged" and result["sum"] == x.sum()


def test_arrays_on_a_gpu_have_one_stream(client, near, monkeypatch):
    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data, x.nbytes)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    registered = types.SimpleNamespace(token=b"0" * 16)
    monkeypatch.setattr(memory.Memory, "_open", lambda *unused: memory._Opened(0, registered))
    with warpfold.connect(near.address) as stages:
        for one in (client, stages):
            for call in (one.sum, lambda array, one=one, **options: one.reduce(array, ["sum"], **options),
                         lambda array, one=one, **options: one.sum(array, 0, **options)):
                with pytest.raises(ValueError, match="one stream, not streams=2"):
                    call(OnGpu(x), streams=2)
        assert stages.sum(OnGpu(x), streams=1) == stages.sum(OnGpu(x), streams=0) == x.sum()


class ByDlpack(dlpack.Exporter):
    def __init__(self, array, device):
        super().__init__(array, device)
        self.shape = array.shape

    def get(self):
        return self.array.copy()


@pytest.mark.parametrize("kind", [OnGpu, OnAnotherGpu, lambda x: ByDlpack(x, dlpack.CUDA),
                                  lambda x: ByDlpack(x, dlpack.CUDA_MANAGED)])
def test_an_array_is_staged_once_the_gpu_has_written_it(near, monkeypatch, kind):
    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data, x.nbytes)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    with warpfold.connect(near.address) as client:
        assert client.sum(kind(x)) == x.sum() and driver.times("cuCtxSynchronize") == 1


@pytest.mark.parametrize("memory", [False, True])
def test_an_interrupt_while_an_array_is_exported_is_heard(near, path, monkeypatch, memory):
    class Interrupting(ByDlpack):
        def __dlpack__(self, **options):
            raise KeyboardInterrupt

    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data, x.nbytes)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    with warpfold.connect(near.address, memory_socket=path if memory else None) as client, \
            pytest.raises(KeyboardInterrupt):
        client.sum(Interrupting(x, dlpack.CUDA))


@pytest.mark.parametrize("context", [0, None])  # it is null, or refused
@pytest.mark.parametrize("refuses", ["", "cuDevicePrimaryCtxRetain", "cuCtxSynchronize"])
def test_memory_without_a_context_is_settled_by_that_of_cudas_runtime(client, monkeypatch, refuses, context):
    """As for a pool's memory, which has none. Such memory cannot be shared."""
    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data, x.nbytes, refuses, context)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    assert client.reduce(OnGpu(x), ["sum"]).way == "staged"
    assert driver.times("cuIpcGetMemHandle") == 0
    is_retained = refuses != "cuDevicePrimaryCtxRetain"
    assert set(driver.pushed) == ({Driver.PRIMARY} if is_retained else set())
    assert driver.times("cuCtxPopCurrent_v2") == driver.times("cuCtxSynchronize") == len(driver.pushed)
    assert driver.times("cuDevicePrimaryCtxRelease_v2") == len(driver.pushed)


def test_an_address_that_the_driver_does_not_know(client, monkeypatch):
    x = numpy.arange(100.0)
    driver = Driver(x.ctypes.data + x.nbytes, 1)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    assert client.reduce(OnGpu(x), ["sum"]).way == "staged"
    assert driver.pushed == [] and gpu.handle_of(x.ctypes.data) is None


def test_without_a_driver_arrays_are_staged(client, monkeypatch):
    def no_function(name):
        raise AttributeError(name)

    with pytest.raises(AttributeError):
        _native.GpuDriver(no_function)
    monkeypatch.setattr(gpu, "_driver", lambda: None)
    assert client.reduce(OnGpu(numpy.arange(100.0)), ["sum"]).way == "staged"
