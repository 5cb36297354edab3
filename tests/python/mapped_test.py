# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Mapped files that are cut before a call, or in the middle of one: ValueError, and the process lives."""

import mmap
import os
import signal
import subprocess
import sys

import numpy
import pytest

from conftest import Server
from proxy import proxy

FILE_BYTES = 64 << 20
# What a peer takes before the file is cut: far more than a header, far less than all.
TAKEN_BYTES = 2 << 20

_WAYS = {
    "contiguous": "client.sum(m)",
    "streams": "client.sum(m, streams=3)",
    "strided": "client.sum(m[::2])",
    "backwards": "client.sum(m[::-1])",
    "checksum": "client.sum(m, checksum=True)",
    "axis": "client.sum(m.reshape(-1, 8), 0)",
    "last axis": "client.sum(m.reshape(-1, 8), 1)",
    "put": "client.put(m)",
    "put with a checksum": "client.put(m, checksum=True)",
    "put with gaps": "client.put(m[::2])",
    "partial": "client.partial(m, ['sum'])",
    "partial with a checksum": "client.partial(m, ['sum'], checksum=True)",
    "pieces": "client.sum(part for part in m.reshape(8, -1))",
    "several operators": "client.reduce(m, ['min', 'max'])",
    "asarray": "client.sum(numpy.asarray(m))",
    "a view": "client.sum(m.view(numpy.ndarray)[::2])",
    "mmap": "client.sum(m._mmap)",
    "mmap as numbers": "client.sum(m._mmap, dtype='float64', checksum=True)",
    "DLPack": "client.sum(Exporter(m))",
    "DLPack with gaps": "client.sum(Exporter(m[::2]))",
    "asyncio": "asyncio.run(in_asyncio(m))"}

_SCENARIO = """
import asyncio, sys
import numpy, warpfold
from warpfold import aio

class Exporter:  # of another library, which does not say that its memory is a file's
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

async def in_asyncio(m):
    async with aio.connect(sys.argv[1]) as client:
        return await client.sum(m[::2])

m = numpy.memmap(sys.argv[2], "float64", "r+")
with warpfold.connect(sys.argv[1]) as client:
    try:
        print("answered", {call})
    except ValueError as error:
        print("ValueError", error)
    print(client.sum(numpy.arange(5)), flush=True)
{then}
"""


@pytest.fixture(scope="module")
def keeper():
    with Server(f"--resident_bytes={4 * FILE_BYTES}") as server:
        yield server


def cut_in_the_middle(keeper, path, call, then=""):
    with open(path, "wb") as file:
        file.truncate(FILE_BYTES)

    def cut(data, before):
        if before < TAKEN_BYTES <= before + len(data):
            os.truncate(path, 4096)
        return data

    with proxy(keeper.address, cut) as address:
        # Its own handler of the signal must go on being heard of other faults.
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", _SCENARIO.format(call=call, then=then), address,
             path], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", _WAYS)
def test_cut_in_the_middle_of_a_call(keeper, tmp_path, way):
    done = cut_in_the_middle(keeper, tmp_path / "x", _WAYS[way])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("ValueError"), done.stdout
    assert "has become shorter than the map" in done.stdout
    assert done.stdout.endswith("\n10\n")
    assert os.path.getsize(tmp_path / "x") == 4096


@pytest.mark.parametrize("call", ["client.sum(m)", "client.sum(m[::2])"])
def test_what_is_missing_is_never_read_as_zeros_after_the_call(keeper, tmp_path, call):
    done = cut_in_the_middle(keeper, tmp_path / "x", call, "m[-1]; print('read')")
    assert done.returncode in (-signal.SIGBUS, -signal.SIGSEGV)
    assert "ValueError" in done.stdout and "read" not in done.stdout
    assert "Fatal Python error" in done.stderr  # from faulthandler


def views(path):
    mapped = numpy.memmap(path, "float64", "r")
    yield from (mapped, mapped[::2], numpy.asarray(mapped), mapped.view(numpy.ndarray), mapped[5:],
                numpy.asarray(mapped)[::-1].reshape(64, -1), numpy.memmap(path, "int8", "r", 1 << 19))
    with open(path, "rb") as file:
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    yield from (raw, memoryview(raw), numpy.frombuffer(raw, "float32"))


def test_cut_before_the_call(client, tmp_path):
    path = tmp_path / "x"
    numpy.zeros(1 << 17).tofile(path)
    arrays = list(views(path))
    for array in arrays:
        assert client.sum(array) == 0
    # In the middle of a page, so that the rest of it is zeros, and not missing.
    os.truncate(path, (1 << 20) - 100)
    for array in arrays:
        for call in (client.sum, client.put, lambda x: client.partial(x, ["sum"]), lambda x: client.sum(x, 0),
                     lambda x: client.sum(iter([x]))):
            with pytest.raises(ValueError, match="shorter"):
                call(array)


def test_memory_that_is_no_files(client):
    with mmap.mmap(-1, 4096) as mapping:
        mapping[:4] = b"\x01\x02\x03\x04"
        assert client.sum(mapping) == client.sum(numpy.frombuffer(mapping, "uint8")) == 10
