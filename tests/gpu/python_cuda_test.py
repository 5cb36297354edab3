# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays on the server's GPU, from Python: reduced where they lie, to the right value, and timed.

Needs a GPU, CUDA's runtime library, NumPy and the Python package; PyTorch for its test alone. Environment:
WARPFOLD_SERVER; WARPFOLD_COMMIT for the JSON lines, of which each way to pass an array prints one for each
list of operators. No test looks at the times.
"""

import ctypes
import datetime
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import unittest

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
_TO_DEVICE = 1  # cudaMemcpyKind
_CAPSULE_NAME = b"dltensor"


class DlTensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h, the DLTensor in it included."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


class ByInterface:

    def __init__(self, address: int, count: int):
        self.shape = (count,)
        self.__cuda_array_interface__ = {"data": (address, False), "shape": self.shape, "typestr": "<f4",
                                         "version": 3}


class ByDlpack:
    """Has no deleter: the memory outlives it."""

    def __init__(self, address: int, count: int):
        self.shape = (count,)
        self._lengths = (ctypes.c_int64 * 1)(count)
        self._tensor = DlTensor(data=address, device_type=2, ndim=1, code=2, bits=32, lanes=1,
                                shape=ctypes.addressof(self._lengths))
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
    """Of whole numbers, whose sum is exact in any order. A block differs from others by its first element."""
    numbers = numpy.random.default_rng(14).integers(-1000, 1000, _BLOCK_BYTES // 4).astype(numpy.float32)
    for begin in range(0, _BYTES // 4, numbers.size):
        block = numbers.copy()
        block[0] = begin // numbers.size
        if begin <= argmax < begin + block.size:
            block[argmax - begin] = _LARGEST
        yield begin, block


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

    def client(self):
        import warpfold

        path = str(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "memory")
        server = self.enterContext(Server(f"--memory_socket={path}", device=_DEVICE))
        return self.enterContext(warpfold.connect(server.address, memory_socket=path))

    def reduce_where_it_lies(self, how: str, array) -> None:
        client = self.client()
        for operators in (["sum"], ["sum", "argmax"]):
            times_us, kernels_us = [], []
            for call in range(_WARM_UPS + _CALLS):
                begin_s = time.perf_counter()
                result = client.reduce(array, operators)
                end_s = time.perf_counter()
                self.assertEqual(result.way, "gpu memory")
                self.assertEqual(result["sum"], self.sum)
                self.assertEqual(result.get("argmax", self.argmax), self.argmax)
                if call >= _WARM_UPS:
                    times_us.append(1e6 * (end_s - begin_s))
                    kernels_us.append(1e6 * result.timings.kernel)
            self.tell(how, operators, result.device, times_us, kernels_us)

    def tell(self, how: str, operators: list, device: str, times_us: list, kernels_us: list) -> None:
        beyond_us = [whole - kernel for whole, kernel in zip(times_us, kernels_us, strict=True)]
        figures = {f"{name}_{quantile}": round(value, 1)
                   for name, values in (("call_us", times_us), ("kernel_us", kernels_us),
                                        ("beyond_kernel_us", beyond_us))
                   for quantile, value in (("p50", statistics.median(values)),
                                           ("p99", sorted(values)[99 * len(values) // 100]))}
        print(json.dumps({"bench": "python_cuda", "date": datetime.date.today().isoformat(),
                          "commit": os.environ.get("WARPFOLD_COMMIT", "unknown"), "device": device,
                          "array": how, "operators": operators, "bytes": _BYTES, "calls": len(times_us),
                          **figures}), flush=True)

    def test_by_cuda_array_interface(self):
        self.reduce_where_it_lies("__cuda_array_interface__", ByInterface(self.address, self.count))

    def test_by_dlpack(self):
        self.reduce_where_it_lies("DLPack", ByDlpack(self.address, self.count))

    def test_by_torch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("PyTorch is not here")
        import torch

        array = torch.empty(self.count, dtype=torch.float32, device=_DEVICE)
        array.copy_(torch.from_dlpack(ByDlpack(self.address, self.count)))
        self.addCleanup(torch.cuda.empty_cache)
        self.reduce_where_it_lies(f"PyTorch {torch.__version__}", array)


if __name__ == "__main__":
    unittest.main()
