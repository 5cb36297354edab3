# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A real server for all tests of the Python package.

Environment: WARPFOLD_SERVER, the executable; WARPFOLD_DEVICE, cpu (default) or cuda:N;
WARPFOLD_RANDOM_EXAMPLES, set to anything: Hypothesis then chooses other arrays each time. Otherwise it has
the same ones in each run, so that a test that fails does so because of what was changed.
"""

import contextlib
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys

import numpy
import pytest

import warpfold

# Not every environment has Hypothesis: those of wheels_test.py are bare.
if "WARPFOLD_RANDOM_EXAMPLES" not in os.environ and importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.register_profile("same", derandomize=True, database=None)
    settings.load_profile("same")

# The certificates are made there. The path comes last, since suites have the same names.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

_STOP_TIMEOUT_S = 60
MAX_REGISTERED_BYTES = 1 << 20


class Server:
    """A process that drains, or is killed, at the end of a with statement."""

    def __init__(self, *flags, listen="127.0.0.1:0", log=None):
        """log: a file for what the server writes about its calls, one JSON object a line."""
        if log is not None:
            flags = (*flags, "--log_format=json")
        self.process = subprocess.Popen(
            [os.environ["WARPFOLD_SERVER"], f"--listen={listen}",
             f"--device={os.environ.get('WARPFOLD_DEVICE', 'cpu')}", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if log is None else log, text=True)
        ready = self.process.stdout.readline()
        if not ready.startswith("READY "):
            self.kill()
            raise RuntimeError(f"the server is not ready: {ready!r}")
        self.address = ready.split()[1].removeprefix("listen=")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        finally:
            self.kill()


class OnGpu:
    """An array that claims to be on a GPU, and is in the host's memory."""

    largest = 0  # how many elements were copied at once

    def __init__(self, array):
        self.array, self.shape = array, array.shape
        self.__cuda_array_interface__ = array.__array_interface__

    def __getitem__(self, part):
        return OnGpu(self.array[part])

    def get(self):
        OnGpu.largest = max(OnGpu.largest, self.array.size)
        return self.array.copy()


class WithMask(numpy.ndarray):
    """Like astropy's masked arrays, which are no numpy.ma.MaskedArray."""

    mask = None

    @classmethod
    def of(cls, array, mask):
        masked = numpy.asarray(array).view(cls)
        masked.mask = mask
        return masked


@contextlib.contextmanager
def stopped(process):
    """Like a server that hangs: its memory socket accepts what is sent, and returns nothing."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # a running thread goes on for a moment
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="session")
def server():
    with Server("--resident_bytes=1048576") as server:
        yield server


@pytest.fixture(scope="session")
def client(server):
    with warpfold.connect(server.address) as client:
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return str(tmp_path_factory.mktemp("socket") / "memory")


@pytest.fixture(scope="module")
def near(path):
    """A server with a memory socket at `path`."""
    with Server(f"--memory_socket={path}", f"--max_registered_bytes={MAX_REGISTERED_BYTES}") as server:
        yield server
