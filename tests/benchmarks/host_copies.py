# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Copies from pinned host memory to one, two and all GPUs at once, without Warpfold: what the host's memory
and buses allow several GPUs if arrays are copied.

    python3 host_copies.py --output FILE [--bytes N] [--rounds N] [--commit HASH]

Each GPU copies its own part, one piece after another into the same buffer. The last GPU is also measured
alone: it may be farther from the memory than the first. JSON lines go to FILE. Needs PyTorch.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import sys
import time

import torch

_PIECE_BYTES = 16 << 20


def rate_gbps(source: torch.Tensor, buffers: dict) -> float:
    """The rate of copies to all of these GPUs, each of which has its own part of `source`."""
    share = len(source) // len(buffers) // _PIECE_BYTES * _PIECE_BYTES
    for device in buffers:
        torch.cuda.synchronize(device)
    begin_s = time.perf_counter()
    for at in range(0, share, _PIECE_BYTES):
        for number, buffer in enumerate(buffers.values()):
            first = number * share + at
            buffer.copy_(source[first:first + _PIECE_BYTES], non_blocking=True)
    for device in buffers:
        torch.cuda.synchronize(device)
    return share * len(buffers) / (time.perf_counter() - begin_s) / 1e9


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--bytes", type=int, default=4 << 30, help="of the pinned memory")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args()


def main() -> int:
    flags = parse()
    count = torch.cuda.device_count()
    source = torch.ones(flags.bytes, dtype=torch.uint8).pin_memory()
    buffers = {f"cuda:{i}": torch.empty(_PIECE_BYTES, dtype=torch.uint8, device=f"cuda:{i}")
               for i in range(count)}
    sets = {"one": list(buffers)[:1], "last": list(buffers)[-1:], "two": list(buffers)[:2],
            "all": list(buffers)}
    rates = {name: [] for name in sets}
    for _ in range(flags.rounds + 1):  # the first one warms up
        for name, devices in sets.items():
            rates[name].append(rate_gbps(source, {device: buffers[device] for device in devices}))
    with open(flags.output, "w", encoding="utf-8") as output:
        for name, devices in sets.items():
            ratios = [own / one for own, one in zip(rates[name][1:], rates["one"][1:], strict=True)]
            line = {"bench": "host_copies", "date": datetime.date.today().isoformat(),
                    "operator": "copy", "dtype": "uint8", "bytes": flags.bytes,
                    "device": torch.cuda.get_device_name(0), "devices": ",".join(devices),
                    "device_count": len(devices), "gbps": round(statistics.median(rates[name][1:]), 2),
                    "ratio": round(statistics.median(ratios), 3), "ratio_least": round(min(ratios), 3),
                    "ratio_most": round(max(ratios), 3), "rounds": flags.rounds, "commit": flags.commit}
            print(json.dumps(line), file=output, flush=True)
            print(" ".join(f"{key}={value}" for key, value in line.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
