# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""out= on a GPU, to which the server writes itself, or the client copies. The driver is a stand-in here."""

import numpy
import pytest

import dlpack
import warpfold
from conftest import OnGpu
from gpu_memory_test import SETTINGS, Connection, Driver
from warpfold import _native, gpu

BYTES = 80_000


class Lent:
    """Memory that a stand-in says is a GPU's."""

    def __init__(self, path):
        real = _native.MemoryConnection.open(path, SETTINGS, None)
        self.shared = real.allocate(BYTES, True, SETTINGS, None)
        self.connection = Connection(real, self.shared)
        self.connection.allocate = real.allocate
        self.driver = Driver(self.shared.address, BYTES)
        self._used = 0

    def array(self, shape, dtype, values=0):
        array = numpy.empty(shape, dtype)
        place = self.shared.bytes()[self._used:self._used + array.nbytes].view(array.dtype).reshape(shape)
        self._used += array.nbytes + -array.nbytes % 8
        place[...] = values
        return OnGpu(place)

    @property
    def copies(self):
        return self.driver.times("cuMemcpyHtoD_v2")


@pytest.fixture
def lent(near, path, monkeypatch):
    lent = Lent(path)
    monkeypatch.setattr(gpu, "_driver", lambda: lent.driver.native)
    return lent


@pytest.fixture
def client(near, path, lent):
    with warpfold.connect(near.address, memory_socket=path) as client:
        client._memory._connection = lent.connection
        yield client


X = numpy.random.default_rng(8).normal(size=(20, 30))


@pytest.mark.parametrize("method, dtype", [("sum", "float64"), ("mean", "float64"), ("max", "float64"),
                                           ("count_nonzero", "int64")])
@pytest.mark.parametrize("is_sent", [False, True])
def test_the_server_writes_what_has_a_columns_type(client, lent, method, dtype, is_sent):
    x = X if is_sent else lent.array(X.shape, float, X)
    out = lent.array(20, dtype, 7)
    assert getattr(client, method)(x, axis=1, out=out) is out
    expected = getattr(client, method)(X, axis=1)
    assert numpy.array_equal(out.array, expected) and lent.copies == 0
    assert lent.connection.for_results == ([True] if is_sent else [False, True])
    # The GPU's earlier work may be about either.
    assert lent.driver.times("cuCtxSynchronize") == (1 if is_sent else 2)
    getattr(client, method)(x, axis=1, out=out)
    assert len(lent.connection.opened) == (1 if is_sent else 2)  # once for each allocation


@pytest.mark.parametrize("method, kwargs, dtype", [
    ("sum", {}, "float32"), ("argmin", {}, "int64"), ("sum", {"dtype": "float32"}, "float64"),
    ("max", {"keepdims": True}, "float32"), ("min", {}, "float16")])
def test_the_client_copies_what_the_server_cannot_write(client, lent, method, kwargs, dtype):
    expected = getattr(client, method)(X, axis=1, **kwargs)
    out = lent.array(expected.shape, dtype, 7)
    assert getattr(client, method)(X, axis=1, out=out, **kwargs) is out
    assert numpy.array_equal(out.array, expected.astype(dtype)) and lent.copies == 1


def test_without_axes_the_client_copies_the_value(client, lent):
    out = lent.array((), "float64", 7)
    assert client.sum(X, out=out) is out
    assert out.array == client.sum(X) and lent.copies == 1


@pytest.mark.parametrize("refuses", ["cuIpcGetMemHandle", "cuMemGetAddressRange_v2"])
def test_memory_that_cannot_be_shared(client, lent, refuses):
    lent.driver.refuses = refuses
    out = lent.array(20, "float64", 7)
    client.sum(X, axis=1, out=out)
    assert numpy.array_equal(out.array, client.sum(X, axis=1)) and lent.copies == 1


def test_memory_of_no_context_is_written_in_the_runtimes(client, lent):
    lent.driver.context, lent.driver.number = None, 0
    out = lent.array(20, "float64", 7)
    client.sum(X, axis=1, out=out)
    assert numpy.array_equal(out.array, client.sum(X, axis=1)) and lent.copies == 1
    assert set(lent.driver.pushed) == {Driver.PRIMARY}
    assert lent.driver.times("cuDevicePrimaryCtxRetain") == lent.driver.times("cuDevicePrimaryCtxRelease_v2")


def test_a_client_without_a_memory_socket(near, lent):
    out = lent.array(20, "float64", 7)
    with warpfold.connect(near.address) as client:
        client.sum(X, axis=1, out=out)
        assert numpy.array_equal(out.array, client.sum(X, axis=1)) and lent.copies == 1


@pytest.mark.parametrize("first", [0, 10, 190, 200])
def test_an_out_that_overlaps_the_array(client, lent, first):
    both = lent.array(220, "float64", numpy.arange(220.0))
    expected = client.sum(numpy.arange(200.0).reshape(20, 10), axis=1)
    x, out = OnGpu(both.array[:200].reshape(20, 10)), OnGpu(both.array[first:first + 20])
    client.sum(x, axis=1, out=out)
    assert numpy.array_equal(out.array, expected)
    assert lent.copies == (first < 200)


def test_results_of_no_values(client, lent):
    out = lent.array((0,), "float64")
    assert client.sum(numpy.zeros((0, 4)), axis=1, out=out) is out
    assert lent.copies == 0


def test_a_server_that_does_not_know_the_memory(client, lent):
    out = lent.array(20, "float64", 7)
    client.sum(X, axis=1, out=out)
    out.array[...] = 7
    opened, = client._memory._opened.values()
    opened.registered.token = b"?" * 16  # as after a restart
    client.sum(X, axis=1, out=out)
    assert numpy.array_equal(out.array, client.sum(X, axis=1)) and lent.copies == 1


def test_a_call_that_failed_waits_for_the_last_write(client, lent, monkeypatch):
    native, asked, out = client._native, [], lent.array(20, "float64", 7)

    class Late:
        """The first call times out while a device still writes."""

        def __getattr__(self, name):
            return getattr(native, name)

        def reduce_segments(self, *args):
            asked.append(args[3])
            if len(asked) == 1:
                raise warpfold.errors.DeadlineExceededError("late", "DEADLINE")
            if len(asked) < 4:
                raise warpfold.errors.ResourceExhaustedError("still written to", "TOO_MANY_REDUCTIONS")
            return native.reduce_segments(*args)

    client._native = Late()
    with pytest.raises(TimeoutError):
        client.sum(X, axis=1, out=out)
    assert len(asked) == 4 and len(set(asked)) == 1
    # Memory of the host is not given to other arrays.
    asked.clear()
    with pytest.raises(TimeoutError):
        client.sum(X, axis=1, out=client.empty(20))
    assert len(asked) == 1
    client._native = native


def test_what_is_copied_is_there_before_the_call_ends(client, lent):
    client.sum(X, axis=1, out=lent.array(20, "float32", 7))
    last = len(lent.driver.asked) - 1 - lent.driver.asked[::-1].index("cuMemcpyHtoD_v2")
    assert "cuCtxSynchronize" in lent.driver.asked[last:]


def test_a_driver_that_refuses_the_copy(client, lent):
    lent.driver.refuses = "cuMemcpyHtoD_v2"
    with pytest.raises(RuntimeError, match="copy"):
        client.sum(X, axis=1, out=lent.array(20, "float32"))


def with_interface(**changes):
    array = OnGpu(numpy.zeros(20))
    array.__cuda_array_interface__ = {"data": (640, False), "shape": (20,), "typestr": "<f8", **changes}
    return array


class Fixed(OnGpu):
    """Of a library whose arrays do not change."""


Fixed.__module__ = "jaxlib._jax"


class Graph:
    """As PyTorch's tensors that require gradients."""

    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("use var.detach()")


@pytest.mark.parametrize("out, error, words", [
    (with_interface(shape=(21,)), ValueError, "shape"),
    (with_interface(typestr="<i8"), TypeError, "same_kind"),
    (with_interface(typestr="<c16"), TypeError, "without gaps"),
    (with_interface(strides=(16,)), TypeError, "without gaps"),
    (with_interface(data=(640, True)), ValueError, "read-only"),
    (Fixed(numpy.zeros(20)), ValueError, "read-only"), (Graph(), TypeError, "var.detach"),
    (dlpack.Exporter(numpy.zeros(20), dlpack.CUDA), TypeError, "on a GPU"),
    ([0.0] * 20, TypeError, "on a GPU"), ((), TypeError, "on a GPU")])
def test_what_is_rejected_before_anything_is_sent(client, lent, out, error, words):
    with pytest.raises(error, match=words):
        client.sum(X, axis=1, out=out)
    assert lent.driver.asked == []
