# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Dask's arrays over several servers: the bits of one call, whatever the chunks, workers and servers do."""

import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import signal
import threading
import time
import weakref

import numpy
import pytest

import warpfold
import warpfold.dask
from aio_test import Held, no_collection
from conftest import Server
from memory_test import stopped
from warpfold import errors
from warpfold.dask import Run, is_near, parts_of

dask = pytest.importorskip("dask")
dask_array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def servers():
    with Server() as one, Server() as two:
        yield [one.address, two.address]


def start_cluster():
    """A scheduler and four worker processes, none of which opens a page or a port beyond loopback."""
    return distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, host="127.0.0.1",
                                    dashboard_address="127.0.0.1:0")


@pytest.fixture(scope="module")
def cluster():
    with start_cluster() as cluster, distributed.Client(cluster):
        yield cluster


def in_threads(delayed):
    return delayed.compute(scheduler="threads", num_workers=4)


def same_bits(value, expected):
    assert type(value) is type(expected)
    assert numpy.asarray(value).tobytes() == numpy.asarray(expected).tobytes()


class TestParts:
    """How chunks are cut again, for leaves of 8 elements."""

    @pytest.mark.parametrize(
        "sizes, parts",
        [([16, 8, 3], [(0, [Run(0, 0, 16)]), (16, [Run(1, 0, 8)]), (24, [Run(2, 0, 3)])]),
         ([10, 10], [(0, [Run(0, 0, 10), Run(1, 0, 6)]), (16, [Run(1, 6, 4)])]),
         ([3, 3, 3, 3], [(0, [Run(0, 0, 3), Run(1, 0, 3), Run(2, 0, 2)]),
                         (8, [Run(2, 2, 1), Run(3, 0, 3)])]),
         ([0, 5, 0, 3, 0], [(0, [Run(1, 0, 5), Run(3, 0, 3)])]), ([0, 0], [(0, [Run(0, 0, 0)])])])
    def test_what_they_are_made_of(self, sizes, parts):
        assert parts_of(sizes, 8) == parts

    def test_all_elements_are_in_one_part(self):
        random = numpy.random.default_rng(5)
        for _ in range(200):
            sizes = random.integers(0, 40, random.integers(1, 12)).tolist()
            parts, end = parts_of(sizes, 8), 0
            seen = [(run.chunk, index) for _, runs in parts for run in runs
                    for index in range(run.begin, run.begin + run.length)]
            assert seen == [(chunk, index) for chunk, size in enumerate(sizes) for index in range(size)]
            for first, runs in parts:
                assert first == end and first % 8 == 0
                end += sum(run.length for run in runs)


@pytest.mark.parametrize("chunks", [100_000, 7_777, 4_096, 900, (5, 99_990, 5), (100_000, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "bool"])
def test_the_bits_of_one_call(client, servers, dtype, chunks):
    x = (numpy.random.default_rng(1).standard_normal(100_000) * 50).astype(dtype)
    d = dask_array.from_array(x, chunks=(chunks,) if isinstance(chunks, tuple) else chunks)
    operators = ["sum", "mean", "variance", "argmax", "minmax", "first", "last", "count_nonzero"]
    result, expected = in_threads(warpfold.dask.reduce(d, operators, servers)), client.reduce(x, operators)
    for name in operators:
        same_bits(result[name], expected[name])
    assert result.element_count == x.size and result.way == "parts"


def test_several_dimensions(client, servers):
    x = numpy.random.default_rng(2).standard_normal((6, 50, 70)).astype("float32")
    for chunks in ((6, 50, 70), (4, 50, 70), (1, 7, 70), (1, 1, 9)):
        d = dask_array.from_array(x, chunks=chunks)
        same_bits(in_threads(warpfold.dask.reduce(d, "sum", servers)), client.sum(x))
        assert in_threads(warpfold.dask.reduce(d, "argmin", servers)) == client.argmin(x)
    # In Fortran order, and a view: chunks with gaps.
    d = dask_array.from_array(x.T, chunks=(9, 50, 6)).T.rechunk({0: -1, 1: -1}).T.rechunk((16, 50, 6))
    same_bits(in_threads(warpfold.dask.reduce(d, "sum", servers)), client.sum(x.T))


def test_chunks_with_gaps_in_one_dimension(client, servers):
    """Dask makes an array of ones from a single element, which stands for all others."""
    assert in_threads(warpfold.dask.reduce(dask_array.ones(5000, chunks=900), "sum", servers)) == 5000
    x = numpy.random.default_rng(3).standard_normal(100_000)
    d = dask_array.from_array(x, chunks=7_777)[::3]
    same_bits(in_threads(warpfold.dask.reduce(d, "sum", servers)), client.sum(x[::3]))


def test_matrices_in_order(client, servers):
    x = numpy.random.default_rng(3).integers(0, 2**32, (1000, 3, 3), dtype="uint32")
    d = dask_array.from_array(x, chunks=(77, 3, 3))
    product = in_threads(warpfold.dask.reduce(d, "matrix_product", servers, matrix=True))
    assert (product == client.matrix_product(x)).all()
    with pytest.raises(ValueError, match=r"rechunk\(\{-2: -1, -1: -1\}\)"):
        warpfold.dask.reduce(d.rechunk((1, 1, 3)), "matrix_product", servers, matrix=True)


def test_empty_and_options(client, servers):
    empty = dask_array.from_array(numpy.empty((0, 3)), chunks=(1, 3))
    assert in_threads(warpfold.dask.reduce(empty, "sum", servers)) == 0
    with pytest.raises(ValueError) as raised:
        in_threads(warpfold.dask.reduce(empty, "min", servers))
    assert raised.value.reason == "EMPTY_ARRAY"
    x = numpy.array([1, math.nan, 5] * 1000)
    d = dask_array.from_array(x, chunks=100)
    assert math.isnan(in_threads(warpfold.dask.reduce(d, "max", servers)))
    assert in_threads(warpfold.dask.reduce(d, "sum", servers, nan="ignore")) == 6000
    same_bits(in_threads(warpfold.dask.reduce(d, "variance", servers, nan="ignore", ddof=1)),
              client.var(x, nan="ignore", ddof=1))
    large = dask_array.from_array(numpy.array([2**62] * 4000), chunks=999)
    with pytest.raises(OverflowError):
        in_threads(warpfold.dask.reduce(large, "sum", servers))
    assert in_threads(warpfold.dask.reduce(large, "sum", servers, overflow="wrap")) == 0


class TestRefused:

    def of(self, x, chunks="auto"):
        return warpfold.dask.reduce(dask_array.from_array(x, chunks=chunks), "sum", "127.0.0.1:1")

    def test_other_methods_name_the_function_for_dask(self, client):
        with pytest.raises(TypeError, match=r"dask\.array.*pass it to warpfold\.dask\.reduce"):
            client.sum(dask_array.ones(3))

    def test_what_is_no_array_of_elements(self):
        with pytest.raises(TypeError, match=r"dask\.array"):
            warpfold.dask.reduce(numpy.ones(3), "sum", "127.0.0.1:1")
        with pytest.raises(TypeError, match="complex"):
            self.of(numpy.ones(3, "complex64"))
        with pytest.raises(TypeError, match="byte order"):
            self.of(numpy.ones(3, ">f4"))
        with pytest.raises(TypeError, match="MaskedArray"):
            masked = dask_array.from_array(numpy.ma.array([1, 2], mask=[True, False]), asarray=False)
            warpfold.dask.reduce(masked, "sum", "127.0.0.1:1")

    def test_chunks_that_are_not_adjacent_elements(self):
        with pytest.raises(ValueError, match=r"rechunk\(\{1: -1\}\)"):
            self.of(numpy.ones((10, 10)), (5, 5))
        with pytest.raises(ValueError, match=r"rechunk\(\{1: -1, 2: -1\}\)"):
            self.of(numpy.ones((10, 10, 10)), (5, 5, 5))
        d = dask_array.from_array(numpy.arange(10), chunks=5)
        with pytest.raises(ValueError, match="compute_chunk_sizes"):
            warpfold.dask.reduce(d[d > 3], "sum", "127.0.0.1:1")

    def test_options(self):
        d = dask_array.from_array(numpy.arange(10), chunks=5)
        with pytest.raises(ValueError, match="server"):
            warpfold.dask.reduce(d, "sum", [])
        with pytest.raises(ValueError, match="nan"):
            warpfold.dask.reduce(d, "sum", "127.0.0.1:1", nan="omit")
        with pytest.raises(errors.UnimplementedError, match="median"):
            warpfold.dask.reduce(d, "median", "127.0.0.1:1")
        with pytest.raises(ValueError, match="'stddev'"):
            warpfold.dask.reduce(d, ["std"], "127.0.0.1:1")
        with pytest.raises(TypeError, match="timeout"):
            warpfold.dask.reduce(d, "sum", "127.0.0.1:1", timeout="3")
        with pytest.raises(ValueError, match="port"):
            warpfold.dask.reduce(d, "sum", ["127.0.0.1:99999"])
        with pytest.raises(ValueError, match="matrices"):
            warpfold.dask.reduce(dask_array.ones((3, 0, 2)), "sum", "127.0.0.1:1", matrix=True)

    @pytest.mark.parametrize("chunk", [
        numpy.ma.array([1, 2, 3], mask=[0, 0, 1]), [1, 2, 3], numpy.rec.array([1, 2, 3]), memoryview(b"123")])
    def test_chunks_that_are_no_plain_arrays(self, servers, chunk):
        """No value, because otherwise a masked element would count."""
        d = dask_array.from_delayed(dask.delayed(lambda: chunk)(), (3,), "int64")
        with pytest.raises(TypeError, match="a chunk is"):
            in_threads(warpfold.dask.reduce(d, "sum", servers))
        heads = dask_array.concatenate([dask_array.ones(1, dtype="int64", chunks=1), d])
        with pytest.raises(TypeError, match="a chunk is"):
            in_threads(warpfold.dask.reduce(heads, "sum", servers))

    @pytest.mark.parametrize("lie", [lambda x: x[:-1], lambda x: x.astype("float32")])
    def test_chunks_that_are_not_what_the_array_says(self, servers, lie):
        d = dask_array.from_array(numpy.arange(10.0), chunks=5).map_blocks(lie, dtype="float64",
                                                                           chunks=((5, 5),))
        with pytest.raises(ValueError, match="where the array says 5 of float64"):
            in_threads(warpfold.dask.reduce(d, "sum", servers))


def test_which_servers_are_near():
    names = frozenset({"localhost", "10.0.0.7", "node7", "::1"})
    for target in ("unix:/run/x", "unix-abstract:x", "ipv4:127.0.0.1:1", "ipv4:10.0.0.7:1", "ipv6:[::1]:9",
                   "dns:node7:1", "dns://10.0.0.9/node7:1",
                   "localhost:1", "127.0.0.1:50051", "node7:50051", "dns:///10.0.0.7:1",
                   "[::1]:9"):
        assert is_near(target, names), target
    for target in ("node8:50051", "10.0.0.8:1", "dns:///node8:1", "ipv4:10.0.0.8:1", "ipv6:[::2]:9",
                   "dns://node7/node8:1"):
        assert not is_near(target, names), target


@pytest.fixture
def left_out(monkeypatch):
    times = {}
    monkeypatch.setattr(warpfold.dask, "_left_out", times)
    return times


class TestOrder:
    """The servers that a task asks: near ones first, in turn, and those that did not respond last."""

    NEAR = ("127.0.0.1:1", "localhost:2")
    FAR = ("node8:1", "node9:1")

    def order(self, index, targets=(FAR[0], NEAR[0], FAR[1], NEAR[1])):
        return warpfold.dask._in_order(targets, index, 100.0)

    def test_near_before_far(self, left_out):
        for index in range(8):
            assert set(self.order(index)[:2]) == set(self.NEAR)

    def test_in_turn(self, left_out):
        assert {self.order(index)[0] for index in range(4)} == set(self.NEAR)
        assert {self.order(index, self.FAR)[0] for index in range(2)} == set(self.FAR)

    def test_those_that_did_not_answer_are_asked_last(self, left_out):
        left_out[self.NEAR[0]] = 100.5
        for index in range(4):
            assert self.order(index)[0] == self.NEAR[1] and self.order(index)[-1] == self.NEAR[0]
        left_out[self.NEAR[1]] = 101.0
        assert set(self.order(0)[:2]) == set(self.FAR)
        left_out[self.NEAR[0]] = 99.5  # its time is over
        assert self.order(0)[0] == self.NEAR[0]

    def test_who_does_not_answer_is_left_out(self, left_out, servers):
        where = warpfold.dask.Servers(("127.0.0.1:1", servers[0]), (), 60.0)
        called = []

        def call(client, timeout):
            called.append(repr(client))
            return client.is_serving()

        assert warpfold.dask._call(where, 0, call) and warpfold.dask._call(where, 0, call)
        assert ["127.0.0.1:1>" in name for name in called] == [True, False, False]
        assert set(left_out) == {"127.0.0.1:1"}


@contextlib.contextmanager
def filled(server):
    """A server with room for one call, which is there and ends when the iterator is told to."""
    held = Held(before=1, piece=numpy.ones(2 << 20))  # more than can be on the way before a server reads it
    with warpfold.connect(server.address) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.sum, held)
        try:
            assert held.asked.wait(60)
            yield held
        finally:
            held.told.set()
            call.result()


class TestServersThatAreFullOrHang:
    """In one thread: the first server that is asked is the first one in the list."""

    X = numpy.random.default_rng(8).standard_normal(2000)

    def value(self, servers, timeout=None):
        d = dask_array.from_array(self.X, chunks=2000)
        total = warpfold.dask.reduce(d, "sum", [server.address for server in servers], timeout=timeout)
        return total.compute(scheduler="synchronous")

    def test_another_one_is_asked_while_one_is_full(self, left_out, client):
        with Server("--max_concurrent_reductions=1") as one, Server() as two, filled(one):
            same_bits(self.value([one, two]), client.sum(self.X))
            assert set(left_out) == {one.address}

    def test_a_full_one_is_asked_until_it_has_place(self, left_out, client, monkeypatch):
        refused = []

        def left_out_s(error, then=warpfold.dask._left_out_s):
            refused.append(error)
            if len(refused) > warpfold.dask._ROUNDS:
                held.told.set()
            return then(error)

        monkeypatch.setattr(warpfold.dask, "_left_out_s", left_out_s)
        with Server("--max_concurrent_reductions=1") as server, filled(server) as held:
            same_bits(self.value([server]), client.sum(self.X))
        assert {type(error) for error in refused} == {errors.ResourceExhaustedError}

    def test_all_are_full_until_the_timeout(self, left_out):
        with (Server("--max_concurrent_reductions=1") as server, filled(server),
              pytest.raises(errors.ResourceExhaustedError)):
            self.value([server, server], timeout=1)

    def test_another_one_is_asked_when_one_hangs(self, left_out, client):
        with Server() as one, Server() as two:
            self.value([one, two])  # its connection exists, so that only its response is missing
            with stopped(one.process):
                same_bits(self.value([one, two], timeout=8), client.sum(self.X))
                assert set(left_out) == {one.address}

    def test_all_hang(self, left_out):
        with Server() as one:
            self.value([one])
            with stopped(one.process), pytest.raises(errors.DeadlineExceededError):
                self.value([one, one], timeout=2)
        assert not left_out

    @pytest.mark.parametrize("second_takes_s", [0.6, 0.1])
    def test_who_lacked_time_is_left_out_only_if_another_one_was_quicker(self, left_out, monkeypatch,
                                                                         second_takes_s):
        """Of a timeout of 1 s, the first one gets half, which is not enough."""
        monkeypatch.setattr(warpfold.dask, "_client", lambda target, tls: target)

        def call(target, timeout):
            takes_s = {"a:1": 0.6, "b:1": second_takes_s}[target]
            time.sleep(min(takes_s, timeout))
            if timeout < takes_s:
                raise errors.DeadlineExceededError("the timeout is over", "DEADLINE")
            return target

        where = warpfold.dask.Servers(("a:1", "b:1"), (), 1.0)
        if second_takes_s < 0.5:
            assert warpfold.dask._call(where, 0, call) == "b:1" and set(left_out) == {"a:1"}
        else:
            with pytest.raises(errors.DeadlineExceededError):
                warpfold.dask._call(where, 0, call)
            assert not left_out

    def test_what_others_would_refuse_too_is_raised_at_once(self, left_out, servers):
        called = []

        def call(client, timeout):
            called.append(client)
            raise errors.ResourceExhaustedError("too large", "ARRAY_TOO_LARGE")

        where = warpfold.dask.Servers(tuple(servers), (), 60.0)
        with pytest.raises(errors.ResourceExhaustedError):
            warpfold.dask._call(where, 0, call)
        assert len(called) == 1 and not left_out


@pytest.mark.parametrize("reason", ["failed over", "TOO_MANY_REDUCTIONS", "ARRAY_TOO_LARGE"])
def test_a_chunk_is_let_go_without_a_collection(left_out, servers, reason):
    """Whether another server accepted it, or none did."""
    chunk = numpy.ones(1000)
    alive = weakref.ref(chunk)

    def call(client, timeout, chunk=chunk):
        if reason == "failed over":
            return client.sum(chunk)
        raise errors.ResourceExhaustedError("", reason)

    with no_collection():
        if reason == "failed over":
            where = warpfold.dask.Servers(("127.0.0.1:1", servers[0]), (), 9.0)
            assert warpfold.dask._call(where, 0, call) == 1000
        else:
            with contextlib.suppress(errors.ResourceExhaustedError):
                warpfold.dask._call(warpfold.dask.Servers(tuple(servers), (), 0.2), 0, call)
                pytest.fail("no error")
        del chunk, call
        assert alive() is None


def test_no_server(servers):
    d = dask_array.from_array(numpy.arange(10), chunks=5)
    with pytest.raises(errors.UnavailableError):
        in_threads(warpfold.dask.reduce(d, "sum", ["127.0.0.1:1", "127.0.0.1:2"]))
    assert in_threads(warpfold.dask.reduce(d, "sum", ["127.0.0.1:1", *servers])) == 45


class TestWorkerProcesses:

    def test_the_bits_of_one_call(self, client, servers, cluster):
        x = numpy.random.default_rng(4).standard_normal(300_000)
        d = dask_array.from_array(x, chunks=7_001)
        result = warpfold.dask.reduce(d, ["sum", "argmax"], servers).compute()
        same_bits(result["sum"], client.sum(x))
        assert result["argmax"] == client.argmax(x)
        assert len(cluster.scheduler_info["workers"]) == 4

    def test_the_server_on_the_workers_machine_is_called(self, tmp_path, cluster):
        """The far one is this machine, too, under a name that none of its workers uses."""
        x = numpy.ones(100_000)
        d = dask_array.from_array(x, chunks=7_001)
        logs = [tmp_path / "near", tmp_path / "far"]
        with open(logs[0], "wb") as one, open(logs[1], "wb") as two, Server(log=one) as near, \
                Server("--allow_insecure", listen="0.0.0.0:0", log=two) as far:
            far_name = "0.0.0.0:" + far.address.rpartition(":")[2]
            assert warpfold.dask.reduce(d, "sum", [far_name, near.address]).compute() == 100_000
            # If there is no other one, it is called.
            with warpfold.connect(far_name) as client:
                assert client.count_nonzero(x[:5]) == 5
        operators = [[line["operators"] for line in map(json.loads, path.read_text().splitlines())
                      if "operators" in line] for path in logs]
        assert len(operators[0]) >= 15 and operators[0].count(["sum"]) == len(operators[0])
        assert operators[1] == [["count_nonzero"]]

    def test_a_memory_map_that_is_cut_is_no_servers_fault(self, servers, cluster, tmp_path):
        path = tmp_path / "x"
        numpy.ones(100_000).tofile(path)
        mapped = dask.delayed(numpy.memmap)(path, "float64", "r")
        d = dask_array.from_delayed(mapped, (100_000,), "float64")
        assert warpfold.dask.reduce(d, "sum", servers).compute() == 100_000
        # The file is cut after it was mapped, by the task in between.
        cut = dask.delayed(cut_map)(mapped, str(path))
        d = dask_array.from_delayed(cut, (100_000,), "float64")
        with pytest.raises(ValueError, match="shorter"):
            warpfold.dask.reduce(d, "sum", servers).compute()

    def test_errors_come_back_whole(self, servers, cluster):
        d = dask_array.from_array(numpy.empty(0), chunks=1)
        with pytest.raises(errors.InvalidArgumentError) as raised:
            warpfold.dask.reduce(d, "min", servers).compute()
        assert raised.value.reason == "EMPTY_ARRAY" and raised.value.fields == {"operator": "min"}


def cut_map(unused, path):
    mapped = numpy.memmap(path, "float64", "r")
    os.truncate(path, 4096)
    return mapped


def slowly(block, folder=None):
    """Reports that it runs, and takes its time, so that a process is killed in the middle of it."""
    pathlib.Path(folder, f"{os.getpid()}_{time.monotonic_ns()}").touch()
    time.sleep(0.05)
    return block


def once_under_way(folder, wanted, action):

    def wait():
        while len(list(folder.iterdir())) < wanted:
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


class TestLosses:
    """In the middle of a reduction. They have a separate cluster and servers, which do not survive."""

    def test_a_worker_and_a_server_die(self, client, tmp_path):
        x = numpy.random.default_rng(6).standard_normal(400_000)
        d = dask_array.from_array(x, chunks=4_001).map_blocks(slowly, folder=str(tmp_path), dtype="float64")
        with (Server() as one, Server() as two, start_cluster() as cluster, distributed.Client(cluster) as
              dask_client):
            total = warpfold.dask.reduce(d, "sum", [one.address, two.address])

            def kill():
                one.kill()
                worker = next(iter(dask_client.run(os.getpid).values()))
                os.kill(worker, signal.SIGKILL)

            killer = once_under_way(tmp_path, 20, kill)
            value = total.compute()
            killer.join()
            assert one.process.returncode == -signal.SIGKILL
        assert len(list(tmp_path.iterdir())) >= 100
        same_bits(value, client.sum(x))

    def test_all_servers_die(self, tmp_path):
        x = numpy.ones(400_000)
        d = dask_array.from_array(x, chunks=4_001).map_blocks(slowly, folder=str(tmp_path), dtype="float64")
        with Server() as one, Server() as two, start_cluster() as cluster, distributed.Client(cluster):
            total = warpfold.dask.reduce(d, "sum", [one.address, two.address])
            killer = once_under_way(tmp_path, 20, lambda: (one.kill(), two.kill()))
            with pytest.raises(errors.UnavailableError):
                total.compute()
            killer.join()


def test_types_and_names():
    assert callable(warpfold.dask.reduce)
    assert warpfold.cut_elements(4) == 1024 and warpfold.cut_elements(36) == 64
    assert warpfold.cut_elements(4096) == warpfold.cut_elements(8192) == 1
