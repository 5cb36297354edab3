# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrow Flight under the load of `warpfold bench`: DoPut of one array, cut into N streams. Prints one JSON
line, like `warpfold bench --json`. Needs pyarrow.

    python3 flight.py [--transport tcp|unix] [--streams N] [--bytes N] [--chunk_bytes N] [--duration S] ...

The server is a separate process, which receives the batches, counts their rows, and drops them. Both sides
use Flight's default settings.
"""

import argparse
import concurrent.futures
import datetime
import json
import math
import os
import random
import resource
import statistics
import sys
import tempfile
import time

import pyarrow
from pyarrow import flight

from processes import ServerProcess, cpu_seconds

_ELEMENT_BYTES = 4
_PIECE_BYTES = 1 << 26


class DropServer(flight.FlightServerBase):

    def do_put(self, context, descriptor, reader, writer):
        rows = 0
        while True:
            try:
                batch, _ = reader.read_chunk()
            except StopIteration:
                break
            rows += batch.num_rows
        writer.write(rows.to_bytes(8, "little"))


def serve(listen: str) -> None:
    server = DropServer(listen)
    address = listen if listen.startswith("grpc+unix") else f"grpc+tcp://127.0.0.1:{server.port}"
    print(f"READY listen={address}", flush=True)
    server.serve()


def make_array(size: int) -> pyarrow.RecordBatch:
    """The array has its own pages throughout, and none of them is of zeros."""
    piece = random.Random(1).randbytes(min(size, _PIECE_BYTES))
    data = bytearray(piece) * math.ceil(size / len(piece))
    count = size // _ELEMENT_BYTES
    column = pyarrow.Array.from_buffers(pyarrow.float32(), count, [None, pyarrow.py_buffer(data)])
    return pyarrow.RecordBatch.from_arrays([column], ["elements"])


def put(client: flight.FlightClient, stripe: pyarrow.RecordBatch, chunk_rows: int) -> None:
    writer, reader = client.do_put(flight.FlightDescriptor.for_path("array"), stripe.schema)
    for begin in range(0, stripe.num_rows, chunk_rows):
        writer.write_batch(stripe.slice(begin, chunk_rows))
    writer.done_writing()
    counted = int.from_bytes(reader.read().to_pybytes(), "little")
    writer.close()
    if counted != stripe.num_rows:
        raise RuntimeError(f"the server counted {counted} rows of {stripe.num_rows}")


class Load:
    """Calls one after the other: each is an array in stripes, one on each connection."""

    def __init__(self, address: str, pid: int, flags: argparse.Namespace):
        array = make_array(flags.bytes)
        rows = math.ceil(array.num_rows / flags.streams)
        self._stripes = [array.slice(i * rows, rows) for i in range(flags.streams)]
        self._clients = [flight.FlightClient(address) for _ in self._stripes]
        self._threads = concurrent.futures.ThreadPoolExecutor(flags.streams)
        self._chunk_rows = flags.chunk_bytes // _ELEMENT_BYTES
        self._pid = pid

    def _call(self) -> None:
        calls = [self._threads.submit(put, client, stripe, self._chunk_rows)
                 for client, stripe in zip(self._clients, self._stripes)]
        for call in calls:
            call.result()

    def run(self, duration_s: float) -> dict:
        """One round, of at least one call."""
        latencies, client_cpu, server_cpu = [], own_cpu_seconds(), cpu_seconds(self._pid)
        begin = time.perf_counter()
        while not latencies or time.perf_counter() - begin < duration_s:
            before = time.perf_counter()
            self._call()
            latencies.append((time.perf_counter() - before) * 1e6)
        return {"seconds": time.perf_counter() - begin, "latencies": latencies,
                "client_cpu": own_cpu_seconds() - client_cpu,
                "server_cpu": cpu_seconds(self._pid) - server_cpu}


def own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def percentile(values: list, share: float) -> float:
    """Nearest rank, as in `warpfold bench`."""
    return values[max(math.ceil(share * len(values) - 1e-9), 1) - 1]


def spread(key: str, values: list) -> dict:
    return {key: statistics.median(values), f"{key}_min": min(values), f"{key}_max": max(values)}


def report(rounds: list, flags: argparse.Namespace) -> dict:
    latencies = sorted(latency for turn in rounds for latency in turn["latencies"])
    calls = [len(turn["latencies"]) for turn in rounds]
    rates = [count / turn["seconds"] for count, turn in zip(calls, rounds)]
    line = {"bench": "load", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "commit": flags.commit, "cores": os.cpu_count(), "transport": flags.transport, "method": "reduce",
            "source": "chunks", "operator": "none", "dtype": "float32", "bytes": flags.bytes,
            "chunk_bytes": flags.chunk_bytes, "streams": flags.streams, "callers": 1, "pause_ms": 0,
            "rounds": flags.rounds, "side": "flight", "device": f"pyarrow {pyarrow.__version__}",
            "calls": len(latencies), "total_bytes": len(latencies) * flags.bytes,
            "seconds": sum(turn["seconds"] for turn in rounds),
            **spread("gbps", [rate * flags.bytes * 1e-9 for rate in rates]), **spread("calls_per_s", rates)}
    for key, share in (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1)):
        line[key] = percentile(latencies, share)
    for who in ("client", "server"):
        us = statistics.median(turn[f"{who}_cpu"] * 1e6 / count for turn, count in zip(rounds, calls))
        line[f"{who}_cpu_us_per_call"], line[f"{who}_cpu_s_per_gb"] = us, us * 1e3 / flags.bytes
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in line.items()}


def parse(arguments: list) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Arrow Flight under the load of `warpfold bench`")
    parser.add_argument("--transport", choices=("tcp", "unix"), default="tcp")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--chunk_bytes", type=int, default=1 << 20)
    parser.add_argument("--duration", type=float, default=3)
    parser.add_argument("--warm_up", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--serve", help="be the server, at this location")
    return parser.parse_args(arguments)


def main() -> None:
    flags = parse(sys.argv[1:])
    if flags.serve:
        serve(flags.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        listen = "grpc+tcp://127.0.0.1:0" if flags.transport == "tcp" else f"grpc+unix://{folder}/socket"
        with ServerProcess(sys.executable, __file__, "--serve", listen) as server:
            load = Load(server.addresses[0], server.pid, flags)
            load.run(flags.warm_up)
            print(json.dumps(report([load.run(flags.duration) for _ in range(flags.rounds)], flags)))


if __name__ == "__main__":
    main()
