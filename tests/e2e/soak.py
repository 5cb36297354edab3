# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A mixed load with faults, for as long as one likes, and whether the server is afterwards as it was before.

python3 soak.py SECONDS prints a JSON object: the least memory that the server held in the first third of the
time after its first rounds, by how much the least in the last third is above it, and what else it holds. The
least counts, since memory goes up and down with what the allocator keeps until it is given back. The exit
code is 1 if more has grown than the limit allows, or something was not given back.

Each round loads the server with streams, small calls, segments, shared memory and kept arrays, kills clients
in the middle of an upload, resets connections in the middle of a frame and asks for things that are rejected;
then it rests, and the memory is measured. Environment: as executables.py.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import floods
from at_rest import await_rest
from executables import Server, start_warpfold, values, warpfold
from http_pages import get, samples

_MOST_MB_AN_HOUR = 1.0
_LEAST_MB_SEEN = 1.0  # less may be due to the allocator
_WARM_UP = 1 / 4  # of the rounds: caches, arenas and tables take what they need
_LOAD_S = "0.5"
_REST_S = 1.0
_TIMEOUT_S = 30.0
_ONES = 1 << 20
_GAUGES = ("warpfold_slots_in_flight", "warpfold_reductions_in_progress", "warpfold_registrations",
           "warpfold_registered_bytes", "warpfold_kept_array_bytes")
_LOADS = (
    ("--streams", "2", "--bytes", str(16 << 20)),
    ("--method", "array", "--callers", "4"),
    ("--segment_length", "1024", "--bytes", str(4 << 20), "--op", "sum,argmax"),
    ("--source", "memory", "--bytes", str(4 << 20), "--op", "describe"),
    ("--source", "resident", "--bytes", str(4 << 20)),
)


class Soaked:
    """The server, and what is done to it."""

    def __init__(self, server: Server, memory_socket: str):
        self._server = server
        self._memory_socket = memory_socket
        self._admin = next(word.removeprefix("admin=") for word in server.ready_line.split()
                           if word.startswith("admin="))

    def round(self) -> None:
        for load in _LOADS:
            done = warpfold("bench", "--target", self._server.address, "--memory_socket", self._memory_socket,
                            "--memory_bytes", str(32 << 20), "--duration", _LOAD_S, "--warm_up", "0",
                            "--rounds", "1", "--json", *load)
            if done.returncode != 0:
                raise RuntimeError(f"{load}: {done.stderr}")
        self._kill_clients()
        for _ in range(3):
            self._reset_connection()
        for flags in (("--op", "bit_and", "--dtype", "float32", "--iota", "10"),
                      ("--op", "min", "--dtype", "float32", "--iota", "0")):
            if warpfold("reduce", "--target", self._server.address, *flags).returncode == 0:
                raise RuntimeError(f"answered: {flags}")
        ones = struct.pack("<i", 1) * _ONES
        if values(self._server.address, "sum,max", "--dtype", "int32", "-", stdin=ones) != [_ONES, 1]:
            raise RuntimeError("a wrong value")

    def _kill_clients(self) -> None:
        clients = [start_warpfold("reduce", "--target", self._server.address, "--op", "sum", "--dtype",
                                  "int32", "-", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
                   for _ in range(3)]
        for client in clients:
            client.stdin.write(bytes(3 << 20))
            client.stdin.flush()
        for client in clients:
            client.send_signal(signal.SIGKILL)
            client.wait()
            with contextlib.suppress(BrokenPipeError):
                client.stdin.close()

    def _reset_connection(self) -> None:
        with floods.connect(self._server.address) as connection:
            connection.sendall(floods.whole_call(1, "/warpfold.v1.ReductionService/Reduce")[:-2])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def memory_bytes(self) -> int:
        """The memory in use that belongs to this process alone."""
        rollup = pathlib.Path(f"/proc/{self._server.process.pid}/smaps_rollup").read_text(encoding="ascii")
        return next(int(line.split()[1]) << 10 for line in rollup.splitlines()
                    if line.startswith("Anonymous:"))

    def settled(self) -> dict[str, float]:
        """What the server holds when no connection is left."""
        await_rest(self._admin)
        return self.holds()

    def holds_at_rest(self, like: dict[str, float]) -> dict[str, float]:
        """A connection that ends is closed a moment after its last call's response."""
        deadline = time.monotonic() + _TIMEOUT_S
        while (holds := self.holds()) != like and time.monotonic() < deadline:
            time.sleep(0.1)
        return holds

    def holds(self) -> dict[str, float]:
        """What calls, clients and arrays would have to give back."""
        series = samples(get(self._admin, "/metrics")[1])
        descriptors = len(os.listdir(f"/proc/{self._server.process.pid}/fd"))
        return {"descriptors": descriptors, **{gauge: series[gauge] for gauge in _GAUGES}}


@dataclasses.dataclass(frozen=True)
class Verdict:
    rounds: int
    memory_mb: float
    growth_mb: float
    hours: float  # in which it grew by this amount
    before: dict[str, float]
    after: dict[str, float]

    @property
    def is_good(self) -> bool:
        most = max(_MOST_MB_AN_HOUR * self.hours, _LEAST_MB_SEEN)
        return self.growth_mb < most and self.before == self.after


def verdict_on(looks: list[tuple[float, int]], before: dict[str, float], after: dict[str, float]) -> Verdict:
    """Judges measurements of the memory, each with its time in seconds."""
    kept = looks[int(len(looks) * _WARM_UP):]
    third = max(len(kept) // 3, 1)
    first, last = (min(memory for _, memory in part) / 1e6 for part in (kept[:third], kept[-third:]))
    return Verdict(len(looks), first, last - first, (kept[-1][0] - kept[0][0]) * 2 / 3 / 3600, before, after)


def soak(seconds: float) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="warpfold_soak_") as folder:
        memory_socket = f"{folder}/memory"
        with Server("--admin_listen=127.0.0.1:0", f"--memory_socket={memory_socket}",
                    f"--resident_bytes={64 << 20}") as server:
            soaked = Soaked(server, memory_socket)
            # A shard's thread opens a descriptor when it first waits, on a busy machine after READY.
            soaked.round()
            before = soaked.settled()
            looks: list[tuple[float, int]] = []
            begin = time.monotonic()
            while not looks or time.monotonic() - begin < seconds:
                soaked.round()
                time.sleep(_REST_S)
                looks.append((time.monotonic(), soaked.memory_bytes()))
            return verdict_on(looks, before, soaked.holds_at_rest(before))


def main() -> None:
    verdict = soak(float(sys.argv[1]))
    print(json.dumps({**dataclasses.asdict(verdict), "good": verdict.is_good}))
    sys.exit(not verdict.is_good)


if __name__ == "__main__":
    main()
