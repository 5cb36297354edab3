# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A network with faults: a proxy that does to each connection what a seed says. It never changes a byte, as
TCP does not; it delays bytes, cuts them off, loses all that follow, or accepts no more of them. Also a
network on which attempts to connect get no response."""

import asyncio
import collections
import contextlib
import dataclasses
import random
import socket
import struct
import threading

KINDS = ("none", "delay", "rate", "single bytes", "cut", "reset", "black hole", "stops reading", "half close")
_MOST_AFTER_LOG2 = 24  # a fault begins within the first 16 MiB, as often early as late
_DELAY_S = 0.005
_BYTES_PER_S = 8 << 20
_SINGLE_BYTES = 500  # this many are sent one by one, then everything goes on
_READ_BYTES = 64 << 10


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    upward: bool  # affects what goes to the server; otherwise what comes from it
    after: int  # this many bytes pass unharmed

    @classmethod
    def draw(cls, chance: random.Random) -> "Fault":
        return cls(chance.choice(KINDS), chance.random() < 0.5, int(2 ** chance.uniform(0, _MOST_AFTER_LOG2)))


class SilentAddress:
    """For a with statement. At `address` attempts to connect get no response, as when a host has lost power:
    a connection that nobody accepts fills the queue, and the kernel drops those that come after it."""

    def __enter__(self) -> "SilentAddress":
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self._waiting = socket.create_connection(self._listener.getsockname())
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        return self

    def __exit__(self, *unused) -> None:
        self._waiting.close()
        self._listener.close()


class FaultProxy:
    """For a with statement. `address` leads to `server`; the n-th connection of a seed always has the same
    fault. `met` counts the faults that have begun."""

    def __init__(self, server: str, seed: int):
        self._server = server.rsplit(":", 1)
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.met = collections.Counter()

    def __enter__(self) -> "FaultProxy":
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._listener = asyncio.run_coroutine_threadsafe(start, self._loop).result()
        self.address = f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *unused) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._listener.close()
        # A connection that has just been accepted begins a task in the next turn.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0)  # aborted connections are closed in the next turn

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        fault = Fault.draw(self._chance)
        server_reader, server = await asyncio.open_connection(*self._server)
        up = self._pump(client_reader, server, client, fault if fault.upward else None)
        down = self._pump(server_reader, client, server, None if fault.upward else fault)
        pumps = [asyncio.ensure_future(up), asyncio.ensure_future(down)]
        try:
            # A connection that breaks on one side ends; a side that has merely ended does not end the other.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
            for writer in (client, server):
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            client.transport.abort()
            server.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter,
                    back: asyncio.StreamWriter, fault: Fault | None) -> None:
        """Forwards what comes from `source` to `to`; `back` is the other direction of the same connection."""
        kind = "none" if fault is None else fault.kind
        unharmed = 0 if fault is None else fault.after
        begun = False
        while data := await source.read(_READ_BYTES):
            head = data if kind == "none" else data[:unharmed]
            unharmed -= len(head)
            to.write(head)
            await to.drain()
            if len(head) == len(data):
                continue
            if not begun:
                self.met[kind] += 1
            begun = True
            if await self._harm(kind, data[len(head):], to, back):
                return
        to.write_eof()

    async def _harm(self, kind: str, data: bytes, to: asyncio.StreamWriter,
                    back: asyncio.StreamWriter) -> bool:
        """Does to `data` what this kind of fault does. Returns whether nothing follows in this direction."""
        if kind == "delay":
            await asyncio.sleep(_DELAY_S)
        elif kind == "rate":
            await asyncio.sleep(len(data) / _BYTES_PER_S)
        elif kind == "single bytes":
            for byte in data[:_SINGLE_BYTES]:
                to.write(bytes([byte]))
                await to.drain()
                await asyncio.sleep(0)  # lets other connections go on
            data = data[_SINGLE_BYTES:]
        elif kind == "cut":
            raise ConnectionAbortedError
        elif kind == "reset":
            for writer in (to, back):
                # Lingering for no time makes the end of a connection a reset.
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                           struct.pack("ii", 1, 0))
                writer.transport.abort()
            raise ConnectionResetError
        elif kind == "black hole":
            return False  # nor does either side learn that nobody reads
        elif kind == "stops reading":
            await asyncio.get_running_loop().create_future()  # until the proxy ends
        elif kind == "half close":
            to.write_eof()
            return True
        to.write(data)
        await to.drain()
        return False
