# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What warpfold.dask.reduce's plan costs: bytes of states, tasks, and states to merge, by groups.

    PYTHON dask_plan.py --bin DIR --output FILE [--chunks 10000,100000] [--commit HASH]

PYTHON is one that has the package (deploy/python_environment.sh makes it). DIR holds warpfold-server. The
states that are merged were made cheaply: each is of a chunk of 128 MiB of float32 that begins inside a larger
subtree, so it has as many nodes as real ones, but their content is that of one leaf of ones. The cost of the
tasks apart from their data is measured with chunks of one leaf, on Dask's threads and, up to 10,000 chunks,
with its distributed scheduler with two processes. A million chunks take 10 minutes. JSON lines go to FILE.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import resource
import sys
import time

import dask
import dask.array
import distributed
import numpy
from processes import ServerProcess

import warpfold
from warpfold.dask import MERGED_STATES, reduce

_LEAF = 1024  # float32
_MOST_DISTRIBUTED = 10_000  # chunks
_CHUNK_LEAVES = (128 << 20) // 4096


def varint(number: int) -> bytes:
    data = b""
    while number >= 0x80:
        data += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return data + bytes((number,))


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value) if value else b""


def subtrees(begin: int, end: int) -> list[tuple[int, int]]:
    """The maximal complete subtrees (level, index) of leaves [begin, end)."""
    nodes = []
    while begin < end:
        level = min((begin & -begin).bit_length() - 1 if begin else 63, (end - begin).bit_length() - 1)
        nodes.append((level, begin >> level))
        begin += 1 << level
    return nodes


def cheap_states(client: warpfold.Client, count: int, chunk_leaves: int) -> list[warpfold.PartialState]:
    """The states of `count` adjacent chunks."""
    leaf = client.partial(numpy.ones(_LEAF, "float32"), ["sum"])
    content = leaf.data[leaf.data.rindex(b"\x1a", 0, -8) :]  # StateNode.operator_states, the last field
    states = []
    for index in range(count):
        begin, end = index * chunk_leaves, (index + 1) * chunk_leaves
        nodes = b"".join(
            field(3, field(1, level) + field(2, at) + content) for level, at in subtrees(begin, end)
        )
        data = field(1, begin * _LEAF) + field(2, chunk_leaves * _LEAF) + nodes
        states.append(
            dataclasses.replace(
                leaf, first_element=begin * _LEAF, element_count=chunk_leaves * _LEAF, data=data
            )
        )
    return states


def merge_line(client: warpfold.Client, count: int) -> dict:
    states = cheap_states(client, count, _CHUNK_LEAVES - 1)
    size = sum(len(state.data) for state in states)
    merges, begin_s = 0, time.perf_counter()
    while len(states) > MERGED_STATES:
        states = [
            client.merge_to_state(states[begin : begin + MERGED_STATES])
            for begin in range(0, len(states), MERGED_STATES)
        ]
        merges += len(states)
    result = client.merge(states)
    wall_s = time.perf_counter() - begin_s
    assert result.element_count == count * (_CHUNK_LEAVES - 1) * _LEAF
    return {
        "case": "merge",
        "chunks": count,
        "state_bytes": size // count,
        "all_state_bytes": size,
        "merges": merges + 1,
        "merge_s": round(wall_s, 2),
    }


def plan_line(count: int, length: int) -> dict:
    """The graph for chunks of `length` elements."""
    array = dask.array.zeros(count * length, dtype="float32", chunks=length)
    begin_s = time.perf_counter()
    value = reduce(array, "sum", "127.0.0.1:1")
    tasks = len(dask.optimize(value)[0].__dask_graph__())
    return {
        "case": "plan",
        "chunks": count,
        "chunk_elements": length,
        "tasks_with_the_chunks": tasks,
        "plan_s": round(time.perf_counter() - begin_s, 2),
        "peak_mib": peak_mib(),
    }


def compute_line(address: str, count: int, scheduler: str) -> dict:
    """The whole reduction, for chunks of one leaf. The scheduler is Dask's current one, which this names."""
    value = reduce(dask.array.ones(count * _LEAF, dtype="float32", chunks=_LEAF), "sum", address)
    begin_s = time.perf_counter()
    assert value.compute() == count * _LEAF
    return {
        "case": "compute",
        "chunks": count,
        "chunk_elements": _LEAF,
        "scheduler": scheduler,
        "compute_s": round(time.perf_counter() - begin_s, 2),
        "peak_mib": peak_mib(),
    }


def distributed_line(address: str, count: int) -> dict:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        return compute_line(address, count, "distributed, 2 processes")


def peak_mib() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--chunks", default="10000,100000")
    parser.add_argument("--commit", default="unknown")
    flags = parser.parse_args()
    lines = []
    with (
        ServerProcess(flags.bin / "warpfold-server", "--listen=127.0.0.1:0", "--device=cpu") as server,
        warpfold.connect(server.addresses[0]) as client,
    ):
        for count in map(int, flags.chunks.split(",")):
            lines.append(merge_line(client, count))
            lines += [plan_line(count, length) for length in (1 << 15, 1 << 15 | 1)]
            lines.append(compute_line(server.addresses[0], count, "threads"))
            if count <= _MOST_DISTRIBUTED:
                lines.append(distributed_line(server.addresses[0], count))
    head = {
        "bench": "dask_plan",
        "date": datetime.date.today().isoformat(),
        "commit": flags.commit,
        "cores": os.cpu_count(),
    }
    flags.output.write_text("".join(f"{json.dumps({**head, **line})}\n" for line in lines), encoding="utf-8")
    for line in lines:
        print(" ".join(f"{name}={value}" for name, value in line.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
