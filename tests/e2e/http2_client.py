# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 connection that respects the server's windows and does only what the test says: it half-closes
nothing and accepts nothing by itself. Needs Debian's python3-h2 (hpack)."""

import collections
import select
import ssl
import struct
import time

import hpack

import floods

_HEADERS, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 1, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_INITIAL_WINDOW, _MAX_FRAME = 4, 5
_FIRST_WINDOW = 65535  # of the connection, and of streams until the server's settings come


class Connection:
    """`ended` has the streams that the server has ended; `sent` how many bytes went on each; `headers` what
    the server has sent for each before its messages and at its end."""

    def __init__(self, address: str, source: str = "", trusted: str = ""):
        self._socket = floods.connect(address, trusted, source)
        self._buffer = b""
        self._next = 1
        self._window = _FIRST_WINDOW
        self._initial, self._most = None, None
        self._stream_windows = collections.Counter()
        self.ended, self.sent = set(), collections.Counter()
        self.headers = collections.defaultdict(dict)
        self._decoder = hpack.Decoder()
        self.is_over = False  # the server has ended the connection
        while self._initial is None:
            self.look(10)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *unused) -> None:
        self._socket.close()

    def begin(self, path: str, headers: bytes = b"") -> int:
        """A call, of which only the headers are sent: `headers`, in HPACK's form, after the usual ones."""
        stream, self._next = self._next, self._next + 2
        self._socket.sendall(floods.frame(_HEADERS, _END_HEADERS, stream,
                                          floods.request_headers(path) + headers))
        self._stream_windows[stream] += self._initial
        return stream

    def close_window(self) -> None:
        """Lets the server send no bytes of messages from now on."""
        self._socket.sendall(floods.frame(_SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW, 0)))

    def half_close(self, stream: int) -> None:
        self._socket.sendall(floods.frame(0, _END_STREAM, stream))

    def send(self, stream: int, data: bytes, patience: float = 0.5) -> bool:
        """Sends data as windows allow; returns whether all was sent before they stayed shut for this long."""
        rest = memoryview(data)
        while rest and stream not in self.ended and not self.is_over:
            size = min(self._window, self._stream_windows[stream], self._most, len(rest))
            if size <= 0:
                if not self.look(patience):
                    return False
                continue
            self._socket.sendall(floods.frame(0, 0, stream, bytes(rest[:size])))
            rest = rest[size:]
            self._window -= size
            self._stream_windows[stream] -= size
            self.sent[stream] += size
            self.look()
        return not rest

    def await_ends(self, count: int, seconds: float) -> int:
        """How many streams have ended, as soon as there are this many, or after this time."""
        deadline = time.monotonic() + seconds
        while len(self.ended) < count and not self.is_over and time.monotonic() < deadline:
            self.look(0.1)
        return len(self.ended)

    def look(self, patience: float = 0) -> bool:
        """Reads what the server has sent; waits this long for something."""
        came = False
        while not self.is_over and self._has_come(0 if came else patience):
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            self.is_over = not data
            self._buffer += data
            came = True
            self._take_frames()
        return came

    def _has_come(self, patience: float) -> bool:
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0:
            return True
        return bool(select.select([self._socket], [], [], patience)[0])

    def _take_frames(self) -> None:
        while len(self._buffer) >= 9:
            length = int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < 9 + length:
                return
            kind, flags, stream = struct.unpack(">BBI", self._buffer[3:9])
            self._take(kind, flags, stream, self._buffer[9:9 + length])
            self._buffer = self._buffer[9 + length:]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            values = dict(struct.iter_unpack(">HI", payload))
            self._initial = values.get(_INITIAL_WINDOW, _FIRST_WINDOW)
            self._most = values.get(_MAX_FRAME, 16384)
            self._socket.sendall(floods.frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            self._socket.sendall(floods.frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if stream == 0:
                self._window += more
            else:
                self._stream_windows[stream] += more
        elif kind == _HEADERS:
            self.headers[stream].update(self._decoder.decode(payload))
            if flags & _END_STREAM:
                self.ended.add(stream)
        elif kind == floods.RST_STREAM:
            self.ended.add(stream)
        elif kind == _GOAWAY:
            # Without an error the server accepts no new calls; those that have begun go on.
            self.is_over |= int.from_bytes(payload[4:8], "big") != 0
