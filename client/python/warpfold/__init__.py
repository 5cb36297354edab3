# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reduces arrays on a Warpfold server.

    import numpy, warpfold

    with warpfold.connect("127.0.0.1:50051") as client:
        client.sum(numpy.arange(10))                       # np.int64(45)
        client.reduce(numpy.arange(10), ["min", "argmax"])  # both in one pass over the data

Arrays are NumPy arrays with any strides, and anything that has DLPack or a buffer: arrays of PyTorch, JAX and
CuPy, and memory-mapped files. warpfold.files reads files, warpfold.aio is for asyncio, warpfold.dask reduces
Dask arrays over many machines, warpfold.errors has the exceptions.
"""

from typing import TYPE_CHECKING

from warpfold import errors as errors
from warpfold._native import operator_names
from warpfold.client import Client, connect
from warpfold.errors import WarpfoldError
from warpfold.partial import PartialState, cut_elements
from warpfold.resident import ArrayInfo, ArrayPart, ResidentArray
from warpfold.results import Description, MinMax, Outcome, Result, Subarray, Timings

__all__ = ["ArrayInfo", "ArrayPart", "Client", "Description", "MinMax", "Outcome", "PartialState",
           "ResidentArray", "Result", "Subarray", "Timings", "WarpfoldError", "connect", "cut_elements",
           "operator_names"]
__version__ = "0.1.0"

# Imported when they are first named: each imports more than all the rest of the package does.
_LATER = ("aio", "dask", "files")

if TYPE_CHECKING:
    from warpfold import aio as aio
    from warpfold import dask as dask
    from warpfold import files as files
else:  # a type checker would take any name for one of the package's

    def __getattr__(name):
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            package = "'dask[array]'" if name == "dask" else error.name
            raise AttributeError(f"warpfold.{name} needs {error.name}, which is not installed: "
                                 f"pip install {package}") from error

    def __dir__():
        return sorted({*globals(), *_LATER})
