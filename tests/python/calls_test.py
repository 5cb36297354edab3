# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that end early, run beside others, or report how far they are."""

import contextlib
import json
import math
import os
import signal
import socket
import sys
import threading
import time

import numpy
import pytest

import warpfold
from conftest import Server
from proxy import proxy
from warpfold import errors
from warpfold.progress import Meter

X = numpy.arange(1000)
# The timeout of calls that the test itself ends sooner: it is there so that a failure does not hang.
LONG_S = 120


@contextlib.contextmanager
def silence():
    """The address of a peer that accepts connections and responds to no call.

    It sends settings, since a connection without any counts as none after 3 s, and a machine may stand still
    for that long."""
    settings = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    connections = []

    def take_connections():
        with contextlib.suppress(OSError):  # at the end
            while True:
                connections.append(listener.accept()[0])
                connections[-1].sendall(settings)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=take_connections)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


def test_the_timeout_ends_a_call_whose_pieces_are_small(client):
    def trickle():
        for _ in range(1000):
            time.sleep(0.01)
            yield X[:1]

    client.sum(X)
    begin = time.monotonic()
    with pytest.raises(errors.DeadlineExceededError):
        client.sum(trickle(), timeout=0.1)
    assert time.monotonic() - begin < 0.45


def slow_pieces(count):
    for _ in range(count):
        time.sleep(0.06)
        yield numpy.ones(1 << 18, "float32")


def test_timeout():
    with silence() as address, warpfold.connect(address) as client:
        for call in (lambda: client.sum(X, timeout=0.2), lambda: client.sum(iter([X]), timeout=0.2),
                     lambda: client.info(timeout=0.2), lambda: client.is_serving(timeout=0.2)):
            with pytest.raises(TimeoutError) as raised:
                call()
            assert raised.value.reason == "DEADLINE"


class Late:
    """A file, and an array on a GPU, that are slow to give their data."""

    shape = (1000,)

    def __init__(self):
        self.rest = [b"", X.tobytes()]

    def read(self, size):
        time.sleep(0.3)
        return self.rest.pop()

    def get(self):
        return numpy.frombuffer(self.read(8000), X.dtype)


class LateOnGpu(Late):
    def __init__(self):
        super().__init__()
        self.__cuda_array_interface__ = {"data": (0, False), "shape": (1000,), "typestr": "<i8", "version": 3}


def late(thing):
    time.sleep(0.3)
    yield thing


@pytest.mark.parametrize("call", [
    lambda client, timeout: client.sum(late(X), timeout=timeout),
    lambda client, timeout: client.reduce(late(X), ["sum"], timeout=timeout)["sum"],
    lambda client, timeout: client.sum(Late(), dtype="int64", timeout=timeout),
    lambda client, timeout: client.sum(LateOnGpu(), timeout=timeout),
    lambda client, timeout: client.merge(late(client.partial(X, ["sum"])), timeout=timeout)["sum"],
    lambda client, timeout: client.merge([client.merge_to_state(late(client.partial(X, ["sum"])),
                                                                timeout=timeout)])["sum"]])
def test_the_timeout_counts_the_wait_for_what_is_sent(client, call):
    with pytest.raises(errors.DeadlineExceededError) as raised:
        call(client, 0.2)
    assert raised.value.reason == "DEADLINE"
    assert call(client, LONG_S) == call(client, math.inf) == X.sum()


@pytest.mark.parametrize("call", [
    lambda client: client.sum(X, timeout=LONG_S),
    lambda client: client.sum(numpy.ones(1 << 24), timeout=LONG_S, streams=3),
    lambda client: client.sum(iter([X]), timeout=LONG_S),
    lambda client: client.info(timeout=LONG_S)])
def test_keyboard_interrupt_ends_a_call(call):
    with silence() as address, warpfold.connect(address) as client:
        timer = threading.Timer(0.3, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            call(client)
        timer.join()


def test_handlers_of_signals_run_during_a_call():
    heard = []

    def handler(number, frame):
        heard.append(number)
        if len(heard) == 2:
            raise InterruptedError("twice")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with silence() as address, warpfold.connect(address) as client:
            timers = [threading.Timer(delay, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
                      for delay in (0.2, 0.5)]
            for timer in timers:
                timer.start()
            with pytest.raises(InterruptedError, match="twice"):
                client.sum(X, timeout=LONG_S)
            for timer in timers:
                timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(heard) == 2


def test_other_threads_run_during_a_call():
    with silence() as address, warpfold.connect(address) as client:
        def call():
            with pytest.raises(TimeoutError):
                client.sum(X, timeout=1)

        thread = threading.Thread(target=call)
        thread.start()
        assert sum(range(1000)) == 499500
        assert thread.is_alive()  # this thread has Python's lock here, and that one is in its call
        thread.join()


def test_many_threads_on_one_client(client):
    wrong = []

    def work(seed):
        for i in range(30):
            x = numpy.full(1000 + 50_000 * (i % 3), seed + i)
            if client.sum(x) != x.sum():
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Long enough for the call to be asked whether it should go on, in the stream's destructor.
@pytest.mark.parametrize("is_silent", [False, True])
def test_an_iterator_that_raises_late_ends_the_call(client, is_silent):
    def pieces():
        yield X  # a window has room for all of it
        time.sleep(0.2)
        raise KeyError("mine")

    with silence() as address, warpfold.connect(address) as deaf:
        for _ in range(3):
            with pytest.raises(KeyError, match="mine"):
                (deaf if is_silent else client).sum(pieces(), timeout=LONG_S)
    assert client.sum(X) == X.sum()


def test_a_signal_in_an_iterator_ends_the_call(client):
    def handler(number, frame):
        raise InterruptedError("in a piece")

    def pieces():
        yield numpy.ones(1 << 20)
        time.sleep(LONG_S)

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.3, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(InterruptedError, match="in a piece"):
            client.sum(pieces())
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert client.sum(X) == X.sum()


def test_an_iterator_that_raises_ends_the_call():
    def pieces():
        yield X
        raise KeyError("no more")

    # The server has room for one call: the next one shows that this one has ended, whoever keeps the error.
    with Server("--max_concurrent_reductions=1") as server, warpfold.connect(server.address) as client:
        with pytest.raises(KeyError, match="no more") as kept:
            client.sum(pieces())
        assert client.sum(iter([X])) == X.sum()
        assert kept.value.__traceback__


def test_progress(client):
    told = []
    client.sum(numpy.ones(1 << 20), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (8 << 20, 8 << 20)
    told.clear()
    client.sum(slow_pieces(4), progress=lambda done, total: told.append((done, total)))
    assert len(told) > 1 and told == sorted(told) and told[0][1] is None


def test_progress_does_not_go_back():
    """A failed call sends its bytes again, and the next piece begins where the failed one did."""
    told = []
    meter = Meter(lambda done, total: told.append(done), 10)
    for sent in (4, 8, 6, 12):
        meter.tell(sent)
    assert told == [4, 8, 8, 10]


def test_progress_that_raises_ends_the_call(client):
    def progress(done, total):
        raise LookupError(done)

    with pytest.raises(LookupError):
        client.sum(slow_pieces(100), progress=progress)
    assert client.sum(X) == X.sum()


def test_progress_bar(client, capsys, monkeypatch):
    pytest.importorskip("tqdm")
    client.sum(numpy.ones(1 << 20), progress=True)
    assert "8.39M" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install tqdm\), or pass a function"):
        client.sum(X, progress=True)


def test_a_progress_bar_that_nobody_sees(client, monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", None)  # as in a process that was started without it
    assert client.sum(X, progress=True) == X.sum()
    with open("/dev/full", "w", buffering=1, encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert client.sum(X, progress=True) == X.sum()
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()


def reductions(path):
    """The server's log lines about reductions, once it has ended."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if "operators" in line]


@pytest.mark.parametrize("count", [1000, 1 << 20])
def test_names_reach_the_server(tmp_path, count):
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    path = tmp_path / "log"
    x = numpy.ones(count)
    with open(path, "wb") as log, Server(log=log) as server, warpfold.connect(server.address) as client:
        options = {"request_id": "a test", "traceparent": f"00-{trace}-{parent}-01",
                   "tracestate": "rojo=1", "timeout": LONG_S}
        assert client.sum(x, **options) == count
        assert client.sum(x.reshape(8, -1), 1, **options).sum() == count
        assert client.reduce(iter([x]), ["max"], **options)["max"] == 1
        state = client.partial(x, ["sum"], **options)
        assert client.merge([state], timeout=LONG_S)["sum"] == count
        client.sum(x)
    named = [line for line in reductions(path) if line.get("request_id") == "a test"]
    assert len(named) == 4, reductions(path)
    for line in named:
        assert (line["trace_id"], line["parent_span_id"], line["tracestate"]) == (trace, parent, "rojo=1")


@pytest.mark.parametrize("call", [
    lambda client, x, **options: client.sum(x, **options),
    lambda client, x, **options: client.sum(x.reshape(-1, 4)[:, ::2], **options),
    lambda client, x, **options: client.sum(x.reshape(-1, 1 << 18), 1, **options).sum(),
    lambda client, x, **options: client.reduce(iter([x]), ["sum"], **options)["sum"],
    lambda client, x, **options: client.reduce_segments(
        x, ["sum"], lengths=[1, len(x) - 1], **options)["sum"].sum(),
    lambda client, x, **options: client.merge([client.partial(x, ["sum"], **options)])["sum"],
    lambda client, x, **options: client.put(x, **options).sum()])
def test_a_checksum_finds_what_a_peer_has_changed(call):
    """Changes a byte of the array, in the middle of what is sent."""
    x = numpy.full(1 << 21, 0x55, "uint8")
    run = b"\x55" * 64
    changed = []

    def change(data, before):
        if changed or before < 1 << 19 or run not in data:
            return data
        changed.append(before)
        return data.replace(run, b"\x56" + run[1:], 1)

    with Server("--resident_bytes=33554432") as server, proxy(server.address, change) as address, \
            warpfold.connect(address) as client:
        with pytest.raises(errors.DataLossError):
            call(client, x, checksum=True)
        expected = call(client, x, checksum=True)
        assert len(changed) == 1
        changed.clear()
        assert int(call(client, x)) == int(expected) + 1  # without a checksum nobody notices


def test_closed_client(server):
    client = warpfold.connect(server.address)
    assert server.address in repr(client)
    client.close()
    assert "closed" in repr(client)
    for call in (lambda: client.sum(X), client.info, client.is_serving):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_several_servers_and_a_unix_socket(server, tmp_path):
    with Server(listen=f"unix:{tmp_path}/socket") as other:
        x = numpy.random.default_rng(7).normal(size=4 << 20)
        with warpfold.connect([server.address, other.address]) as both:
            assert both.sum(x, streams=4) == both.sum(x, streams=1)


def test_a_server_that_ends_and_another_that_comes(tmp_path):
    address = f"unix:{tmp_path}/socket"
    with warpfold.connect(address) as client:
        with Server(listen=address):
            assert client.sum(X) == X.sum()
        with pytest.raises(ConnectionError):
            client.sum(X)
        with Server(listen=address):
            assert client.sum(X) == X.sum()


def test_forked_processes_are_told(client, server):
    def told(action):
        try:
            action()
        except RuntimeError as error:
            return "forked" in str(error)
        return False

    child = os.fork()
    if child == 0:
        both = told(lambda: client.sum(X)) and told(lambda: warpfold.connect(server.address))
        os._exit(0 if both else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.sum(X) == X.sum()
