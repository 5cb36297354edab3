# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Capsules of DLPack with types, and on devices, that NumPy does not export."""

import ctypes

# DLDataTypeCode.
_FLOAT = 2
_BFLOAT = 4
# DLDeviceType.
HOST = 1
CUDA = 2
CUDA_MANAGED = 13


class _Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h, including its DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


class Foreign:
    """A NumPy array in the form of another library's, which has only what DLPack requires."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Exporter:
    """A contiguous array of floats, said to be on a device."""

    def __init__(self, array, device, code=_FLOAT):
        self.array, self._device = array, device
        self._lengths = (ctypes.c_int64 * 1)(array.size)
        self._tensor = _Tensor(data=array.ctypes.data, device_type=device, ndim=1, code=code,
                               bits=8 * array.itemsize, lanes=1, shape=ctypes.addressof(self._lengths))
        self._new_capsule = ctypes.pythonapi.PyCapsule_New
        self._new_capsule.restype = ctypes.py_object
        self._new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

    def __dlpack__(self, **options):
        return self._new_capsule(ctypes.addressof(self._tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return self._device, 0


class Bfloat16(Exporter):
    """An array of ml_dtypes' bfloat16 like JAX's: through DLPack, with NumPy's type of the elements."""

    def __init__(self, array):
        super().__init__(array, HOST, _BFLOAT)
        self.dtype = array.dtype
