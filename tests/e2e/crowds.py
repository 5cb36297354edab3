# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Floods from one host over many connections, each of which stays below what one connection may do.

As a program it prints what each does to a server that it starts, in plaintext and with TLS:
python3 crowds.py [SECONDS]. Needs Debian's python3-h2 (hpack). Environment: as executables.py.
"""

import contextlib
import dataclasses
import select
import socket
import ssl
import statistics
import struct
import sys
import tempfile
import threading
import time
from typing import Callable, Iterator

import floods
from executables import Server, warpfold
from floods import cpu_seconds, frame, resident_bytes
from keys import make_keys

_TICK_S = 0.1
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_UNKNOWN = floods.request_headers("/flood.Service/Method")
_KNOWN = floods.request_headers("/warpfold.v1.ReductionService/Reduce")
_LONG_HEADERS = b"".join(b"\x00\x06x-%04d\x7f\x99\x05" % i + b"a" * 792 for i in range(9))
_MOST_FIELDS = 64  # of a call; _KNOWN has six of these
_SHORT_HEADERS = [b"\x10\x04x%03d\x00" % i for i in range(205)]
SOURCE = "127.0.0.2"  # none of the honest callers has it


# Calls, as frames.
def taken_back(stream: int) -> bytes:
    return frame(1, 4, stream, _KNOWN) + frame(floods.RST_STREAM, 0, stream, struct.pack(">I", 8))


def complete(stream: int) -> bytes:
    return frame(1, 5, stream, _UNKNOWN)


def begun(stream: int) -> bytes:
    return frame(1, 4, stream, _KNOWN)


def with_long_headers(stream: int) -> bytes:
    """Almost as long as the server announces that it accepts."""
    return frame(1, 5, stream, _UNKNOWN + _LONG_HEADERS)


def with_short_headers(stream: int) -> bytes:
    """As many as a call may have."""
    return frame(1, 4, stream, _KNOWN + b"".join(_SHORT_HEADERS[:_MOST_FIELDS - 6]))


def in_two_frames(stream: int) -> bytes:
    """gRPC accepts 8 KiB in each frame, and the watch ten in all; the trailers have one."""
    more = b"".join(b"\x10\x03y%02d\x7f\x99\x05" % i + b"a" * 792 for i in range(2))
    trailer = b"\x10\x03z00\x7f\xb1\x05" + b"a" * 816
    return (frame(1, 0, stream, _KNOWN + _LONG_HEADERS) + frame(9, 4, stream, more) +
            frame(1, 5, stream, trailer))


def in_many_frames(stream: int) -> bytes:
    """60 KiB in eight frames, each of which is within gRPC's limit."""
    return (frame(1, 0, stream, _KNOWN) +
            b"".join(frame(9, 4 if last else 0, stream, _LONG_HEADERS) for last in (0, 0, 0, 0, 0, 0, 0, 1)))


def with_priority_alone(stream: int) -> bytes:
    """A reader that expects a priority in the next frame misses the fields there."""
    hidden = b"\x00\x01x\x06a\x00\x7f\x80\x80\x04" + b"".join(_SHORT_HEADERS)
    return frame(1, 0x20, stream) + frame(9, 4, stream, hidden)


def with_very_many_headers(stream: int) -> bytes:
    """As many as gRPC accepts: 45 KiB of memory, or 64 with as many trailers."""
    return frame(1, 4, stream, _KNOWN + b"".join(_SHORT_HEADERS))


@dataclasses.dataclass(frozen=True)
class Crowd:
    """This many connections, each of which begins so many calls at once and then so many a second."""
    name: str
    connections: int
    call: Callable[[int], bytes]  # of a stream
    at_once: int
    a_second: int = 0
    acknowledges: bool = True  # the server's settings
    reads: bool = True

    def flood(self, address: str, seconds: float, trusted: str = "", source: str = SOURCE) -> int:
        """How many of the connections the server has ended meanwhile."""
        with contextlib.ExitStack() as opened:
            alive = [opened.enter_context(contextlib.closing(floods.connect(address, trusted, source)))
                     for _ in range(self.connections)]
            for connection in alive:
                if self.acknowledges:
                    connection.recv(65536)
                    connection.sendall(floods.ACKNOWLEDGEMENT)
                connection.setblocking(False)
            left = {connection: b"" for connection in alive}
            begin, stream, tick = time.monotonic(), 1, 0
            while left and (now := time.monotonic() - begin) < seconds:
                if now >= tick * _TICK_S:
                    calls = self.at_once if tick == 0 else round(self.a_second * _TICK_S)
                    piece = b"".join(self.call(stream + 2 * i) for i in range(calls))
                    stream, tick = stream + 2 * calls, tick + 1
                    left = {connection: rest + piece for connection, rest in left.items()}
                left = dict(self._go_on(left))
            return self.connections - len(left)

    def _go_on(self, left: dict[socket.socket, bytes]) -> Iterator[tuple[socket.socket, bytes]]:
        ended = select.poll()
        for connection in left:
            ended.register(connection, select.POLLRDHUP)
        over = {descriptor for descriptor, _ in ended.poll(5)}
        for connection, rest in left.items():
            try:
                if self.reads:
                    with contextlib.suppress(*_NOT_NOW):
                        while connection.recv(65536):
                            pass
                if rest:
                    with contextlib.suppress(*_NOT_NOW):
                        rest = rest[connection.send(rest):]
            except OSError:
                continue
            if connection.fileno() not in over:
                yield connection, rest


@dataclasses.dataclass(frozen=True)
class Comings:
    """This many threads, each of which repeatedly connects, begins so many calls, and leaves."""
    name: str
    connections: int  # at once
    call: Callable[[int], bytes]
    calls: int

    def flood(self, address: str, seconds: float, trusted: str = "", source: str = SOURCE) -> int:
        """How many connections were rejected, or ended before they could begin this much."""
        refused, over = [], time.monotonic() + seconds
        piece = floods.ACKNOWLEDGEMENT + b"".join(self.call(1 + 2 * i) for i in range(self.calls))

        def come_and_go():
            while time.monotonic() < over:
                try:
                    with contextlib.closing(floods.connect(address, trusted, source)) as connection:
                        if not connection.recv(65536):
                            raise ConnectionError("refused")
                        connection.sendall(piece)
                except OSError:
                    refused.append(address)

        threads = [threading.Thread(target=come_and_go) for _ in range(self.connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(refused)


COMINGS = Comings("connections that leave 64 calls each", 8, complete, 64)
TAKE_BACK = (
    Crowd("resets, 100 x 450 a second", 100, taken_back, 0, 450),
    Crowd("resets, 200 x 900 at once", 200, taken_back, 900),
)
# As many connections as one peer gets, each with as many calls as it may have; this took 2,522 MiB when these
# were 2,000 and 140.
AS_ALLOWED = (
    Crowd("unknown methods, 250 x 64 at once, nothing read", 250, complete, 64, reads=False),
    Crowd("calls begun, 250 x 64 at once", 250, begun, 64),
    Crowd("headers of 7 KiB, 250 x 64 at once", 250, with_long_headers, 64),
    Crowd("64 short headers, 250 x 64 at once", 250, with_short_headers, 64),
    Crowd("10 KiB in two frames, and trailers, 250 x 64 at once", 250, in_two_frames, 64),
    Crowd("begun, settings not acknowledged, 250 x 100 at once", 250, begun, 100, acknowledges=False),
)
MANY_HEADERS = (
    Crowd("211 short headers, 250 x 64 at once", 250, with_very_many_headers, 64, reads=False),
    Crowd("60 KiB in eight frames, 250 x 64 at once", 250, in_many_frames, 64, reads=False),
    Crowd("a priority alone, 250 x 64 at once", 250, with_priority_alone, 64, reads=False),
)
CROWDS = TAKE_BACK + AS_ALLOWED + (COMINGS,) + MANY_HEADERS + (
    Crowd("unknown methods, 100 x 450 a second", 100, complete, 0, 450),
    Crowd("the same, nothing read", 100, complete, 0, 450, reads=False),
    Crowd("the same, settings not acknowledged", 100, complete, 0, 450, acknowledges=False, reads=False),
    Crowd("calls begun, settings not acknowledged", 100, begun, 0, 450, acknowledges=False, reads=False),
    Crowd("the same, over one connection", 1, begun, 225_000, acknowledges=False, reads=False),
)


class Honest:
    """A caller beside a crowd, as another peer: how long its calls take, in seconds."""

    def __init__(self, server: Server):
        self.seconds: list[float] = []
        self.most_bytes = 0
        self._server, self._over = server, threading.Event()
        self._threads = [threading.Thread(target=self._call), threading.Thread(target=self._look)]

    def _call(self) -> None:
        while not self._over.is_set():
            begin = time.monotonic()
            done = warpfold("reduce", "--target", self._server.address.split(",")[1], "--op", "sum",
                            "--iota", "1000")
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            self.seconds.append(time.monotonic() - begin)

    def _look(self) -> None:
        while not self._over.wait(0.05):
            self.most_bytes = max(self.most_bytes, resident_bytes(self._server.process.pid))

    def __enter__(self) -> "Honest":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def report(crowd: Crowd | Comings, seconds: float, over_tls: bool) -> None:
    with contextlib.ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="warpfold_crowds_"))
        cert, key = make_keys(folder, "server") if over_tls else ("", "")
        flags = [f"--tls_cert={cert}", f"--tls_key={key}"] if over_tls else []
        server = opened.enter_context(Server(*flags, listen=f"127.0.0.1:0,unix:{folder}/s"))
        pid = server.process.pid
        with Honest(server) as alone:
            time.sleep(1)
        before, cpu = resident_bytes(pid), cpu_seconds(pid)
        with Honest(server) as beside:
            cut = crowd.flood(server.address.split(",")[0], seconds, cert)
            used = cpu_seconds(pid) - cpu
        print(f"{crowd.name:40} {'TLS' if over_tls else 'plaintext'}: {cut} of {crowd.connections} cut; "
              f"{before / 2**20:.0f} MiB before, {beside.most_bytes / 2**20:.0f} at most; "
              f"{used:.1f} s of CPU; a call takes "
              f"{1000 * statistics.median(alone.seconds):.0f} ms alone, beside it "
              f"{1000 * statistics.median(beside.seconds):.0f}, {1000 * max(beside.seconds):.0f} at most",
              flush=True)
        server.kill()  # the rest of a flood may keep it busy for long


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    for over_tls in (False, True):
        for crowd in CROWDS:
            report(crowd, seconds, over_tls)


if __name__ == "__main__":
    main()
