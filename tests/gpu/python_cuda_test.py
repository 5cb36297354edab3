# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays on the server's GPU, used from Python: reduced where they lie, to the right value, and timed.

For each call: call_us is its time as Python measures it, kernel_us as the server does, client_us as the C++
client does, which begins when it has the array's place. python_us is what Python adds to that, look_up_us the
part of it in which the place is found, and settle_us the part of that in which the driver is asked and the
idle GPU is waited for; beyond_kernel_us is the call without the kernel.

Needs a GPU, CUDA's runtime library, NumPy and the Python package; PyTorch only for its own test. Environment:
WARPFOLD_SERVER; WARPFOLD_COMMIT for the JSON lines: each way to pass an array prints one for each transport
and list of operators. No test looks at the times.
"""

import concurrent.futures
import ctypes
import datetime
import importlib.util
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from executables import Server  # noqa: E402

_BYTES = 4 << 30
_BLOCK_BYTES = 64 << 20
_DEVICE = "cuda:0"
_WARM_UPS = 5
_CALLS = 50
_LARGEST = 5000.0
_LIBRARIES = ("libcudart.so", "libcudart.so.13", "libcudart.so.12")
_TO_DEVICE, _FROM_DEVICE = 1, 2  # cudaMemcpyKind
_CAPSULE_NAME = b"dltensor"


class DlTensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h, including its DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


class ByInterface:

    def __init__(self, address: int, *shape: int, typestr: str = "<f4"):
        self.shape = shape
        self.__cuda_array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr,
                                         "version": 3}


class ByDlpack:
    """The memory outlives it, so its deleter does nothing. JAX looks for the deleter and calls it even when
    the process ends, when Python's functions and objects are gone: so it is a C function, and this object
    stays."""

    def __init__(self, address: int, count: int):
        self.shape = (count,)
        self._lengths = (ctypes.c_int64 * 1)(count)
        self._tensor = DlTensor(data=address, device_type=2, ndim=1, code=2, bits=32, lanes=1,
                                shape=ctypes.addressof(self._lengths),
                                deleter=ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        self._new_capsule = ctypes.pythonapi.PyCapsule_New
        self._new_capsule.restype = ctypes.py_object
        self._new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

    def __dlpack__(self, **options):
        return self._new_capsule(ctypes.addressof(self._tensor), _CAPSULE_NAME, None)

    def __dlpack_device__(self):
        return 2, 0


class Cuda:
    """The few functions of CUDA's runtime that make an array; each failure is a RuntimeError."""

    def __init__(self, name: str):
        self._library = ctypes.CDLL(name)

    def _check(self, error: int, what: str) -> None:
        if error != 0:
            raise RuntimeError(f"{what}: CUDA error {error}")

    def has_device(self) -> bool:
        return self._library.cudaGetDeviceCount(ctypes.byref(ctypes.c_int())) == 0

    def allocate(self, nbytes: int) -> int:
        address = ctypes.c_void_p()
        self._check(self._library.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(nbytes)), "cudaMalloc")
        return address.value

    def write(self, address: int, block: numpy.ndarray) -> None:
        self._check(self._library.cudaMemcpy(ctypes.c_void_p(address), ctypes.c_void_p(block.ctypes.data),
                                             ctypes.c_size_t(block.nbytes), _TO_DEVICE), "cudaMemcpy")

    def read(self, address: int, count: int, dtype: str) -> numpy.ndarray:
        values = numpy.empty(count, dtype)
        self._check(self._library.cudaMemcpy(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(address),
                                             ctypes.c_size_t(values.nbytes), _FROM_DEVICE), "cudaMemcpy")
        return values

    def free(self, address: int) -> None:
        self._check(self._library.cudaFree(ctypes.c_void_p(address)), "cudaFree")


def cuda() -> Cuda:
    for name in _LIBRARIES:
        try:
            return Cuda(name)
        except OSError:
            continue
    raise unittest.SkipTest(f"none of {', '.join(_LIBRARIES)} can be loaded")


def blocks(argmax: int):
    """Whole numbers, whose sum is exact in any order. A block differs from others in its first element."""
    numbers = numpy.random.default_rng(14).integers(-1000, 1000, _BLOCK_BYTES // 4).astype(numpy.float32)
    for begin in range(0, _BYTES // 4, numbers.size):
        block = numbers.copy()
        block[0] = begin // numbers.size
        if begin <= argmax < begin + block.size:
            block[argmax - begin] = _LARGEST
        yield begin, block


def timed(function, times_us: list):
    def timing(*arguments):
        begin_s = time.perf_counter()
        answer = function(*arguments)
        times_us.append(1e6 * (time.perf_counter() - begin_s))
        return answer

    return timing


class PythonCudaTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("warpfold") is None:
            raise unittest.SkipTest("the Python package is not installed")
        cls.cuda = cuda()
        if not cls.cuda.has_device():
            raise unittest.SkipTest("there is no GPU")
        cls.address = cls.cuda.allocate(_BYTES)
        cls.addClassCleanup(cls.cuda.free, cls.address)
        cls.count = _BYTES // 4
        cls.argmax = cls.count - cls.count // 7
        cls.sum = 0
        for begin, block in blocks(cls.argmax):
            cls.cuda.write(cls.address + begin * 4, block)
            cls.sum += int(block.sum(dtype=numpy.float64))

    def client(self, transport: str = "tcp", device: str = _DEVICE):
        import warpfold

        folder = self.enterContext(tempfile.TemporaryDirectory())
        listen, path = {"tcp": "127.0.0.1:0", "unix": f"unix:{folder}/socket"}[transport], f"{folder}/memory"
        server = self.enterContext(Server(f"--memory_socket={path}", listen=listen, device=device))
        return self.enterContext(warpfold.connect(server.address, memory_socket=path))

    def reduce_where_it_lies(self, how: str, array) -> None:
        for transport in ("unix", "tcp"):
            with self.subTest(transport):
                self.reduce_over(transport, how, array)

    def reduce_over(self, transport: str, how: str, array) -> None:
        import warpfold.gpu

        client = self.client(transport)
        looked_up_us, settled_us = [], []
        self.enterContext(mock.patch("warpfold.gpu.settle", timed(warpfold.gpu.settle, settled_us)))
        client._memory.of_gpu = timed(client._memory.of_gpu, looked_up_us)
        for operators in (["sum"], ["sum", "argmax"]):
            calls = []
            for _ in range(_WARM_UPS + _CALLS):
                begin_s = time.perf_counter()
                result = client.reduce(array, operators)
                call_us = 1e6 * (time.perf_counter() - begin_s)
                self.assertEqual(result.way, "gpu memory")
                self.assertEqual(result["sum"], self.sum)
                self.assertEqual(result.get("argmax", self.argmax), self.argmax)
                kernel_us, client_us = 1e6 * result.timings.kernel, 1e6 * result.timings.total
                calls.append({"call_us": call_us, "kernel_us": kernel_us, "client_us": client_us,
                              "beyond_kernel_us": call_us - kernel_us, "python_us": call_us - client_us,
                              "look_up_us": looked_up_us[-1], "settle_us": settled_us[-1]})
            self.tell(transport, how, operators, result.device, calls[_WARM_UPS:])

    def tell(self, transport: str, how: str, operators: list, device: str, calls: list) -> None:
        figures = {}
        for name in calls[0]:
            values = sorted(call[name] for call in calls)
            figures[f"{name}_p50"] = round(statistics.median(values), 1)
            figures[f"{name}_p99"] = round(values[99 * len(values) // 100], 1)
        print(json.dumps({"bench": "python_cuda", "date": datetime.date.today().isoformat(),
                          "commit": os.environ.get("WARPFOLD_COMMIT", "unknown"), "device": device,
                          "transport": transport, "array": how, "operators": operators, "bytes": _BYTES,
                          "calls": len(calls), **figures}), flush=True)

    def test_by_cuda_array_interface(self):
        self.reduce_where_it_lies("__cuda_array_interface__", ByInterface(self.address, self.count))

    def test_by_dlpack(self):
        self.reduce_where_it_lies("DLPack", ByDlpack(self.address, self.count))

    def test_results_on_the_gpu(self):
        """They do not leave it, unless they have to be converted."""
        import warpfold.gpu

        rows, length = _BLOCK_BYTES // 4096, 1024
        out = self.cuda.allocate(8 * rows)
        self.addCleanup(self.cuda.free, out)
        _, block = next(blocks(self.argmax))
        expected = block.reshape(rows, length).sum(axis=1, dtype=numpy.float64)
        array = ByInterface(self.address, rows, length)
        for dtype, is_copied in (("<f8", False), ("<f4", True)):
            with self.subTest(dtype):
                target = ByInterface(out, rows, typestr=dtype)
                client = self.client()
                with mock.patch("warpfold.gpu.write", wraps=warpfold.gpu.write) as write:
                    self.assertIs(client.sum(array, axis=1, out=target), target)
                self.assertEqual(write.called, is_copied)
                numpy.testing.assert_array_equal(self.cuda.read(out, rows, dtype), expected.astype(dtype))

    def test_a_thread_that_has_no_current_context(self):
        array, client = ByDlpack(self.address, self.count), self.client()
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            result = thread.submit(client.reduce, array, ["sum"]).result()
        self.assertEqual((result.way, result["sum"]), ("gpu memory", self.sum))

    def test_by_torch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("PyTorch is not here")
        import torch

        array = torch.empty(self.count, dtype=torch.float32, device=_DEVICE)
        array.copy_(torch.from_dlpack(ByDlpack(self.address, self.count)))
        self.addCleanup(torch.cuda.empty_cache)
        self.reduce_where_it_lies(f"PyTorch {torch.__version__}", array)

    def test_by_cupy(self):
        if importlib.util.find_spec("cupy") is None:
            self.skipTest("CuPy is not here")
        import cupy

        array = cupy.empty(self.count, dtype=cupy.float32)
        self.addCleanup(cupy.get_default_memory_pool().free_all_blocks)
        cupy.copyto(array, cupy.from_dlpack(ByDlpack(self.address, self.count)))
        self.reduce_where_it_lies(f"CuPy {cupy.__version__}", array)

    def test_by_jax(self):
        if importlib.util.find_spec("jax") is None:
            self.skipTest("JAX is not here")
        import jax

        if jax.default_backend() != "gpu":
            self.skipTest("JAX has no GPU")
        array = jax.dlpack.from_dlpack(ByDlpack(self.address, self.count))
        self.reduce_where_it_lies(f"JAX {jax.__version__}", array)

    def test_a_server_without_a_gpu_is_sent_the_elements(self):
        """For each library that is installed, with gaps and without, in more pieces than one."""
        count = 3 << 20
        expected = {"sum": count * (count - 1) // 2, "argmax": count - 1}
        client = self.client(device="cpu")
        for how, make in self.makers().items():
            with self.subTest(how):
                array = make(count)
                result = client.reduce(array, ["sum", "argmax"])
                self.assertEqual((result.way, dict(result)), ("staged", expected))
                half = client.reduce(array[::2], ["sum", "count_nonzero"])
                self.assertEqual((half.way, half["sum"], half["count_nonzero"]),
                                 ("staged", count // 2 * (count // 2 - 1), count // 2 - 1))

    def test_axes_in_place_and_staged(self):
        """The last axes, by a server that reads them where they lie and by one to which they are sent."""
        shape = (3, 1 << 10, 1 << 10)
        numbers = numpy.arange(shape[0] * shape[1] * shape[2], dtype=numpy.int64).reshape(shape)
        for how, make in self.makers().items():
            array = make(numbers.size).reshape(shape)
            for device in (_DEVICE, "cpu"):
                client = self.client(device=device)
                for axis in (-1, (1, 2), (0, 1, 2)):
                    for keepdims in (False, True):
                        with self.subTest(how, device=device, axis=axis, keepdims=keepdims):
                            answer = client.sum(array, axis=axis, keepdims=keepdims)
                            numpy.testing.assert_array_equal(
                                answer, numbers.sum(axis=axis, keepdims=keepdims), strict=True)
                numpy.testing.assert_array_equal(client.argmax(array, axis=-1), numbers.argmax(axis=-1))
                self.assertEqual(client.max(array, keepdims=True).shape, (1, 1, 1))
                several = client.reduce(array, ["argmin", "count_nonzero"], axis=-1, keepdims=True)
                numpy.testing.assert_array_equal(several["argmin"], numbers.argmin(axis=-1, keepdims=True))
                lengths = [5, 0, numbers.size - 5]
                segments = client.reduce_segments(make(numbers.size), ["sum", "argmin"], lengths=lengths)
                self.assertEqual(segments["sum"].tolist(), [10, 0, numbers.sum() - 10])
                self.assertEqual(segments.outcomes["argmin"].error.fields["segment"], "1")

    def makers(self) -> dict:
        """Functions that make the int64 elements 0, 1, ... on the GPU, by the library's name."""
        makers = {}
        if importlib.util.find_spec("torch") is not None:
            import torch

            makers["PyTorch"] = lambda count: torch.arange(count, dtype=torch.int64, device=_DEVICE)
        if importlib.util.find_spec("cupy") is not None:
            import cupy

            makers["CuPy"] = lambda count: cupy.arange(count, dtype=cupy.int64)
        if not makers:
            self.skipTest("neither PyTorch nor CuPy is here")
        return makers

    def test_a_tensor_on_another_gpu(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("PyTorch is not here")
        import torch

        if torch.cuda.device_count() < 2:
            self.skipTest("there is one GPU")
        self.addCleanup(torch.cuda.empty_cache)
        array = torch.arange(1 << 20, dtype=torch.float32, device=f"cuda:{torch.cuda.device_count() - 1}")
        expected = (1 << 19) * ((1 << 20) - 1)
        for device, way in ((_DEVICE, "staged"), ("cuda:all", "gpu memory")):
            with self.subTest(device):
                result = self.client(device=device).reduce(array, ["sum", "argmax"])
                self.assertEqual((result.way, result["sum"], result["argmax"]),
                                 (way, expected, (1 << 20) - 1))

    def test_results_on_another_gpu(self):
        """Of arrays on each GPU to tensors on each. A server that has one GPU cannot write to the other."""
        if importlib.util.find_spec("torch") is None:
            self.skipTest("PyTorch is not here")
        import torch
        import warpfold.gpu

        last = torch.cuda.device_count() - 1
        if last == 0:
            self.skipTest("there is one GPU")
        self.addCleanup(torch.cuda.empty_cache)
        numbers = torch.arange(1 << 20, dtype=torch.float64).reshape(1 << 10, 1 << 10)
        expected = numbers.sum(axis=1).numpy()
        for device, source, place in itertools.product((_DEVICE, "cuda:all"), (0, last), (0, last)):
            with self.subTest(device, source=source, place=place):
                target = torch.full((1 << 10,), -1, dtype=torch.float64, device=f"cuda:{place}")
                client = self.client(device=device)
                with mock.patch("warpfold.gpu.write", wraps=warpfold.gpu.write) as write:
                    client.sum(numbers.to(f"cuda:{source}"), axis=1, out=target)
                # It writes neither to the other GPU nor, since the array is staged, the other one's sums.
                self.assertEqual(write.called, device == _DEVICE and (source, place) != (0, 0))
                numpy.testing.assert_array_equal(target.cpu().numpy(), expected)


if __name__ == "__main__":
    unittest.main()
