# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reduces arrays on a Warpfold server.

    import numpy, warpfold

    with warpfold.connect("127.0.0.1:50051") as client:
        client.sum(numpy.arange(10))                       # np.int64(45)
        client.reduce(numpy.arange(10), ["min", "argmax"])  # both in one pass over the data

Arrays are NumPy's, of any strides, and whatever has DLPack or a buffer: PyTorch's, JAX's, CuPy's, memory
mapped files. warpfold.files reads files, warpfold.aio is for asyncio, warpfold.dask reduces Dask's arrays
over many machines, warpfold.errors has the exceptions.
"""

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
