# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""One server on more and more devices, measured with `warpfold bench`: what each further device is worth.

    python3 several_devices.py --bin DIR --output FILE [--devices LIST LIST ...] [--bytes N] [--callers N ...]
                               [--sources NAME ...] [--commit HASH]

DIR holds warpfold-server and warpfold. A LIST is a value of --device; the first is the one with which others
are compared. Servers of all lists run at once and take turns, round by round, so that anything that slows the
machine down slows all of them. Arrays lie in memory that the server reads, on its devices, or are sent; with
one caller, who waits for each result, and with several. Calls go over Unix sockets. JSON lines go to FILE; a
table is printed at the end. `--devices cpu cpu` tries the script without a GPU. Needs only the standard
library.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from processes import ServerProcess

_ROUNDS = 5


class Case(NamedTuple):
    source: str
    callers: int


class Side:
    """A server on the devices of one list."""

    def __init__(self, flags: argparse.Namespace, devices: str, folder: pathlib.Path):
        self.devices = devices
        self._flags = flags
        self._socket = folder / "memory"
        most_bytes = flags.bytes * max(flags.callers)
        self._server = ServerProcess(
            flags.bin / "warpfold-server", f"--listen=unix:{folder}/socket", f"--device={devices}",
            f"--memory_socket={self._socket}", f"--max_registered_bytes={most_bytes}",
            # A little more: arrays begin at round addresses, and the last eighth is for other clients.
            f"--resident_bytes={most_bytes * 8 // 7 + (1 << 20)}")

    def __enter__(self) -> "Side":
        self._server.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._server.__exit__(*error)

    @property
    def device_count(self) -> int:
        return len(self._server.device.split()[0].split(","))

    def run(self, case: Case) -> dict:
        command = [self._flags.bin / "warpfold", "bench", "--json", "--target", self._server.addresses[0],
                   "--server_pid", self._server.pid, "--method", "reduce", "--op", "sum",
                   "--source", case.source, "--callers", case.callers, "--bytes", self._flags.bytes,
                   "--memory_bytes", self._flags.bytes * case.callers, "--rounds", 1,
                   "--warm_up", self._flags.duration / 4, "--duration", self._flags.duration]
        if case.source == "memory":
            command += ["--memory_socket", self._socket]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{case}, {self.devices}: exit {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout.splitlines()[0])


def measure(case: Case, sides: list, flags: argparse.Namespace) -> list:
    rounds = [[side.run(case) for side in sides] for _ in range(flags.rounds)]
    lines = []
    for i, side in enumerate(sides):
        gbps = [of_round[i]["gbps"] for of_round in rounds]
        # Ratios of rounds, not of medians: a disturbance of a round affects both sides of its quotient.
        ratios = [of_round[i]["gbps"] / of_round[0]["gbps"] for of_round in rounds]
        lines.append({"bench": "several_devices", "operator": "sum", "dtype": "float32",
                      "source": case.source, "callers": case.callers, "bytes": flags.bytes,
                      "devices": side.devices, "device_count": side.device_count,
                      "gbps": round(statistics.median(gbps), 3),
                      "p50_us": statistics.median(of_round[i]["p50_us"] for of_round in rounds),
                      "ratio": round(statistics.median(ratios), 3), "ratio_least": round(min(ratios), 3),
                      "ratio_most": round(max(ratios), 3), "rounds": flags.rounds, "commit": flags.commit})
    return lines


def table(lines: list) -> str:
    text = [f"{'source':10}{'callers':>8} {'GPUs':>5}{'GB/s':>10}{'times one':>11}"]
    text += [f"{line['source']:10}{line['callers']:8} {line['device_count']:5}{line['gbps']:10.4g}"
             f"{line['ratio']:11.3f}" for line in lines]
    return "\n".join(text)


def parse(arguments: list) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--devices", nargs="+",
                        default=["cuda:0", "cuda:0,cuda:1", "cuda:0,cuda:1,cuda:2,cuda:3"])
    parser.add_argument("--bytes", type=int, default=4 << 30, help="of an array")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 4])
    sources = ["memory", "resident", "chunks"]
    parser.add_argument("--sources", nargs="+", choices=sources, default=sources)
    parser.add_argument("--duration", type=float, default=2, help="seconds of a turn")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args(arguments)


def main() -> int:
    flags = parse(sys.argv[1:])
    lines = []
    with contextlib.ExitStack() as stack, open(flags.output, "w", encoding="utf-8") as output:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = []
        for i, devices in enumerate(flags.devices):
            (folder / str(i)).mkdir()
            sides.append(stack.enter_context(Side(flags, devices, folder / str(i))))
        for case in [Case(source, callers) for source in flags.sources for callers in flags.callers]:
            for line in measure(case, sides, flags):
                lines.append(line)
                print(json.dumps(line), file=output, flush=True)
    print(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
