# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Mapped files that are cut before a call, or in the middle of one: ValueError, and the process goes on."""

import mmap
import os
import signal
import subprocess
import sys
import time

import numpy
import pytest

from conftest import Server
from dlpack import Foreign
from proxy import proxy
from warpfold import mapped
from warpfold.arrays import elements_of
from warpfold.partial import question_of
from warpfold.raw_bytes import WholeElements

FILE_BYTES = 64 << 20
# The bytes that a peer takes before the file is cut: far more than a header, far less than the whole.
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
    "segments": "client.reduce_segments(m, ['sum'], lengths=[1000, m.size - 1000])",
    "asarray": "client.sum(numpy.asarray(m))",
    "a view": "client.sum(m.view(numpy.ndarray)[::2])",
    "mmap": "client.sum(m._mmap)",
    "mmap as numbers": "client.sum(m._mmap, dtype='float64', checksum=True)",
    "DLPack": "client.sum(Foreign(m))",
    "DLPack with gaps": "client.sum(Foreign(m[::2]))",
    "asyncio": "asyncio.run(in_asyncio(m))"}

_SCENARIO = """
import asyncio, sys
import numpy, warpfold
from dlpack import Foreign
from warpfold import aio

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


def in_the_middle(keeper, path, happens, call, then=""):
    """The call in a separate process, whose id `happens` is given when the server has a part of the file:
    returns what it printed, and how it ended."""
    with open(path, "wb") as file:
        file.truncate(FILE_BYTES)
    processes = []

    def watch(data, before):
        if before < TAKEN_BYTES <= before + len(data):
            happens(processes[0].pid)
        return data

    with proxy(keeper.address, watch) as address:
        # The program's own handler of the signal must go on receiving other faults.
        command = [sys.executable, "-X", "faulthandler", "-c", _SCENARIO.format(call=call, then=then),
                   address, path]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        stdout, stderr = processes[0].communicate()
        return subprocess.CompletedProcess(command, processes[0].returncode, stdout, stderr)


def cut_in_the_middle(keeper, path, call, then=""):
    return in_the_middle(keeper, path, lambda process: os.truncate(path, 4096), call, then)


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
    assert done.returncode in (-signal.SIGBUS, -signal.SIGSEGV), done.stderr[-2000:]
    assert "ValueError" in done.stdout and "read" not in done.stdout
    assert "Fatal Python error" in done.stderr  # from faulthandler


def test_a_signal_that_was_sent_is_passed_on(keeper, tmp_path):
    """No access is repeated after it."""
    done = in_the_middle(keeper, tmp_path / "x", lambda process: os.kill(process, signal.SIGBUS),
                         "client.sum(m)")
    assert done.returncode == -signal.SIGBUS, done.stdout
    assert "Fatal Python error" in done.stderr and done.stdout == ""


# A program over one file that is whole, and one that was cut, with a peer that takes its time.
_TOLD = """
import faulthandler, os, sys
import numpy, warpfold
m, cut = (numpy.memmap(path, "float64", "r+") for path in sys.argv[2:])
os.truncate(sys.argv[3], 4096)

def call(happens):
    def tell(*unused):
        if left:
            left.pop()()
    left = [happens]
    try:
        print(client.sum(m[::2], progress=tell), flush=True)
    except ValueError as error:
        print(error, flush=True)

def fork():
    child = os.fork()
    if child == 0:
        os.truncate(sys.argv[2], 4096)
        m[-1]
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

with warpfold.connect(sys.argv[1]) as client:
    {calls}
"""


def told(keeper, tmp_path, calls):
    def slowly(data, before):
        time.sleep(0.001)
        return data

    for name in "mn":
        with open(tmp_path / name, "wb") as file:
            file.truncate(FILE_BYTES)
    with proxy(keeper.address, slowly) as address:
        return subprocess.run([sys.executable, "-c", _TOLD.format(calls=calls), address, tmp_path / "m",
                               tmp_path / "n"], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("calls", [
    "call(faulthandler.enable); cut[-1]", "call(faulthandler.enable); call(int); cut[-1]",
    "call(faulthandler.enable); call(lambda: cut[-1])"])
def test_a_handler_that_is_installed_in_the_middle_of_a_call(keeper, tmp_path, calls):
    """It passes to ours what comes later, and ours passes nothing to a handler that passes it back."""
    done = told(keeper, tmp_path, calls)
    assert done.returncode == -signal.SIGBUS, done.stderr[-2000:]
    assert done.stdout.startswith("0.0\n") and done.stderr.count("Fatal Python error") == 1


@pytest.mark.parametrize("happens", ["int", "faulthandler.disable"])
def test_a_cut_after_another_handler_was_installed(keeper, tmp_path, happens):
    done = told(keeper, tmp_path, f"call(faulthandler.enable); call({happens}); call(faulthandler.enable); "
                "call(lambda: os.truncate(sys.argv[2], 4096))")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[:3] == ["0.0"] * 3 and "shorter than the map" in done.stdout


def test_a_forked_process_has_no_calls(keeper, tmp_path):
    """What it reads of a file that was cut is missing: it gets no zeros instead."""
    done = told(keeper, tmp_path, "call(fork)")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(f"{-signal.SIGBUS}\n") and "shorter than the map" in done.stdout


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


_BYTES_WAYS = {
    "cut behind": "client.sum(pieces(65537), dtype='float64')",
    "cut before": "client.sum(pieces(4091), dtype='float64')",
    "whole": "client.sum(pieces(65536), dtype='float64')",
    "a file's": "client.sum(Reader(pieces(65537)), dtype='float64')"}

_BYTES_SCENARIO = """
import mmap, os, sys
import numpy, warpfold

class Reader:
    def __init__(self, pieces):
        self.pieces = pieces
    def read(self, size):
        return next(self.pieces, b"")

def pieces(step):
    for at in range(0, len(view), step):
        if at > len(view) // 2:
            os.truncate(sys.argv[2], 4096)
        yield view[at:at + step]

with warpfold.connect(sys.argv[1]) as client, open(sys.argv[2], "rb") as file:
    view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if sys.argv[3] == "of numbers":
        view = memoryview(numpy.frombuffer(view, "uint8"))
    try:
        print("answered", {call})
    except ValueError as error:
        print("ValueError", error)
"""


@pytest.mark.parametrize("of", ["of bytes", "of numbers"])
@pytest.mark.parametrize("way", _BYTES_WAYS)
def test_bytes_in_pieces_that_are_cut_meanwhile(keeper, tmp_path, way, of):
    path = tmp_path / "x"
    numpy.ones(1 << 17).tofile(path)
    scenario = _BYTES_SCENARIO.format(call=_BYTES_WAYS[way])
    done = subprocess.run([sys.executable, "-c", scenario, keeper.address, path, of], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert done.stdout.startswith("ValueError the file under this memory map has become shorter"), done.stdout


def view_of(path):
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def cuts_of(path, *, size):
    """Cuts the file when the elements of all pieces but the last were taken."""
    view = view_of(path)
    yield view[:-3]
    os.truncate(path, size)
    yield view[-3:]


@pytest.mark.parametrize("less_bytes", [1, 100, 5000])
def test_elements_that_lie_in_two_pieces(client, tmp_path, less_bytes):
    path = tmp_path / "x"
    numpy.ones(1 << 17).tofile(path)
    assert client.sum(cuts_of(path, size=1 << 20), dtype="float64") == 1 << 17
    with pytest.raises(ValueError, match="shorter than the map"):
        client.sum(cuts_of(path, size=(1 << 20) - less_bytes), dtype="float64")


def test_a_cut_between_the_elements_of_a_piece(tmp_path):
    path = tmp_path / "x"
    numpy.ones(1 << 17).tofile(path)
    view = view_of(path)
    home = mapped.home_of(numpy.frombuffer(view, "uint8"))
    cut = WholeElements("float64")
    assert list(cut.parts_of(view[:3], home.copy)) == []
    parts = cut.parts_of(view[3:-3], home.copy)
    assert next(parts) == view[:8]
    os.truncate(path, 4096)
    with pytest.raises(ValueError, match="shorter than the map"):
        next(parts)


@pytest.mark.parametrize("left_bytes", [0, 8 << 10])
def test_what_is_missing_is_not_copied(tmp_path, left_bytes):
    path = tmp_path / "x"
    path.write_bytes(b"\x01" * (128 << 10))
    view = view_of(path)
    home = mapped.home_of(numpy.frombuffer(view, "uint8"))
    assert home.may_be_mapped and home.copy(view) == bytes(view)
    assert home.copy(view[:0]) == b""
    os.truncate(path, left_bytes)
    with pytest.raises(ValueError, match="shorter than the map"):
        home.copy(view)
    with pytest.raises(ValueError, match="shorter than the map"):
        home.copy(view[max(left_bytes - 4, 0):][:8])


@pytest.mark.parametrize("less_bytes", [8, 5000])
def test_lists_of_mapped_arrays(client, tmp_path, less_bytes):
    path = tmp_path / "x"
    numpy.ones(1 << 17).tofile(path)
    m = numpy.memmap(path, "float64", "r")
    view = view_of(path)
    dlpack = numpy.from_dlpack(numpy.memmap(path, "float64", "r+"))
    lists = [[m, m], list(numpy.asarray(m)[-10:].reshape(5, 2)), [[1.0, 2.0], (3, 4.0), m[-2:]],
             [numpy.frombuffer(view, offset=(1 << 20) - 16), [1, 2]], [dlpack[-2:], numpy.ones(2)],
             [[[m[::-1]]]]]
    for items in lists:
        assert client.sum(items) > 0
    os.truncate(path, (1 << 20) - less_bytes)
    for items in lists:
        for call in (client.sum, client.put, lambda x: client.sum(iter([x]))):
            with pytest.raises(ValueError, match="shorter than the map"):
                call(items)
    assert client.sum([numpy.ones(2), numpy.frombuffer(bytes(16))]) == 2


def parts_of_maps(path):
    """A view of the second half of a file."""
    half = 1 << 19
    with open(path, "r+b") as file:
        private = mmap.mmap(file.fileno(), half, access=mmap.ACCESS_COPY, offset=half)
        shared = mmap.mmap(file.fileno(), half, offset=half)
        whole = mmap.mmap(file.fileno(), 0)
    x = numpy.frombuffer(whole)[1 << 16:]
    yield from (private, shared, numpy.frombuffer(shared), numpy.frombuffer(memoryview(shared))[::-1], x)
    for array in (numpy.frombuffer(shared), x, x[::-1], x[1::2], x[::-3], x.reshape(256, -1).T):
        yield Foreign(array)
        yield numpy.from_dlpack(array)


@pytest.mark.parametrize("less_bytes", [8, 4000, 4096, 100_000])
def test_a_part_of_a_file_that_was_cut_before_the_call(client, tmp_path, less_bytes):
    path = tmp_path / "x"
    numpy.ones(1 << 17).tofile(path)
    arrays = list(parts_of_maps(path))
    sums = [client.sum(array) for array in arrays]
    os.truncate(path, (1 << 20) - less_bytes)
    for array in arrays:
        for call in (client.sum, lambda x: client.sum(x, checksum=True), lambda x: client.sum(iter([x]))):
            with pytest.raises(ValueError, match="shorter than the map"):
                call(array)
    os.truncate(path, 1 << 20)
    assert len(set(sums)) > 1 and client.sum(numpy.ones(3)) == 3


def test_a_part_before_the_cut_by_dlpack(client, tmp_path):
    path = tmp_path / "x"
    numpy.ones(1 << 17).tofile(path)
    mapped = numpy.memmap(path, "float64", "r+")
    os.truncate(path, (1 << 20) - 8)
    for cut in (slice(-1), slice(0, -1, 2), slice(-2, None, -1)):
        assert client.sum(Foreign(mapped[cut])) == len(mapped[cut])
    os.rename(path, tmp_path / "other name")
    with pytest.raises(ValueError, match="shorter"):
        client.sum(Foreign(mapped))
    os.unlink(tmp_path / "other name")
    (tmp_path / "other name").write_bytes(b"1")  # another file
    (tmp_path / "other name (deleted)").write_bytes(b"1")
    assert client.sum(Foreign(mapped[:-1])) == len(mapped) - 1


@pytest.fixture(params=["asked", "found"])
def place_of(request, monkeypatch):
    """With the kernel's own response, and as before Linux 6.11."""
    if request.param == "found":
        def refuse(address):
            raise OSError("of a newer kernel")

        monkeypatch.setattr(mapped, "_asked", refuse)
    return mapped._place_of


def test_names_of_files_are_found(place_of, client, tmp_path):
    for name in ("plain", "a b  c", " ", "a\rb", "a\x0bb\x1c", "a\nb", "\u00e4\u20ac"):
        path = tmp_path / name
        numpy.ones(1 << 10).tofile(path)
        array = numpy.memmap(path, "float64", "r+")
        address = array.__array_interface__["data"][0]
        assert place_of(address + 100)[::2] == (str(path), 100), repr(name)
        assert client.sum(Foreign(array)) == 1 << 10
        os.truncate(path, (1 << 13) - 8)
        with pytest.raises(ValueError, match="shorter"):
            client.sum(Foreign(array))


def test_maps_of_devices_have_no_size(place_of, client):
    with open("/dev/zero", "r+b") as file, \
            mmap.mmap(file.fileno(), 1 << 13, mmap.MAP_PRIVATE) as mapping:
        array = numpy.frombuffer(mapping)
        assert client.sum(mapping, dtype="int8") == client.sum(array) == client.sum(Foreign(array)) == 0
        del array


@pytest.mark.skipif(sys.version_info < (3, 13), reason="trackfd came with Python 3.13")
@pytest.mark.parametrize("size", [(1 << 20) - 8, 1000])
def test_a_map_that_does_not_know_its_file(client, tmp_path, size):
    path = tmp_path / "x"
    numpy.ones(1 << 17).tofile(path)
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0, trackfd=False)
    assert client.sum(mapping, dtype="float64") == 1 << 17
    os.truncate(path, size)
    with pytest.raises(ValueError, match="shorter"):
        client.sum(mapping, dtype="float64")


def test_arrows_maps(client, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "x"
    numpy.ones(1000).tofile(path)
    array = numpy.frombuffer(pyarrow.memory_map(str(path)).read_buffer())
    assert client.sum(array) == 1000
    os.truncate(path, 7000)
    with pytest.raises(ValueError, match="shorter"):
        client.sum(array)


def test_bytes_of_arrows_maps_in_pieces(client, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "x"
    numpy.ones(4096).tofile(path)
    buffer = pyarrow.memory_map(str(path)).read_buffer(32768)
    gaps = memoryview(buffer)[::2]

    def calls():
        yield lambda: client.sum(buffer, dtype="float64")
        yield lambda: client.sum(iter([buffer]), dtype="float64")
        yield lambda: client.sum(iter([memoryview(buffer)[:-3], memoryview(buffer)[-3:]]), dtype="float64")
        yield lambda: client.sum(iter([gaps]), dtype="int8")

    assert [call() for call in calls()][:3] == [4096] * 3
    os.truncate(path, 32768 - 2000)
    for call in calls():
        with pytest.raises(ValueError, match="shorter than the map"):
            call()


def test_memory_that_is_no_files(client):
    with mmap.mmap(-1, 4096) as mapping:
        mapping[:4] = b"\x01\x02\x03\x04"
        assert client.sum(mapping) == client.sum(numpy.frombuffer(mapping, "uint8")) == 10


def cut_after(function, path):
    def call(*arguments):
        found = function(*arguments)
        os.truncate(path, 0)
        return found
    return call


@pytest.mark.parametrize("elements", [
    lambda mapped: mapped[::2],  # a copy of all
    lambda mapped: mapped[:1000],  # its head is copied to the chunk before
])
def test_cut_while_a_task_of_dask_copies(tmp_path, elements, monkeypatch):
    """The copy begins after everything has been looked at."""
    dask = pytest.importorskip("warpfold.dask")
    path = tmp_path / "x"
    numpy.ones(100_000).tofile(path)
    chunk = elements(numpy.memmap(path, "float64", "r"))
    question = question_of(elements_of(chunk, None), ["sum"], False, "propagate", "error", 0, None)
    assert dask.warpfold_head(question, None, chunk, chunk.size, 9).sum() == 9
    monkeypatch.setattr("warpfold.dask.elements_of", cut_after(elements_of, path))
    with pytest.raises(ValueError, match="shorter"):
        dask.warpfold_head(question, None, chunk, chunk.size, 9)
