# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A server with ten times as many callers as it admits at once: what it still does, and how soon it rejects.

    python3 overload.py --bin DIR --callers FILE --output FILE [--seconds S] [--rounds N] [--commit HASH]

DIR holds warpfold-server, and FILE is overload_callers. Each round has three sides: as many callers as the
server admits (capacity), ten times as many (overload), and as many as it admits while the others call another
server process (control): this is what the machine leaves of the capacity when no server is at fault. Rejected
callers pause for 120 ms, the longest time for which the server and the library tell them to wait, or do not
pause: then the client library delays them for as long, and the times of rejections include that. JSON lines
go to the output, each with medians of its rounds and the most memory that the server has had by then. Needs
only the standard library.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess

from processes import ServerProcess, peak_mib

_PLACES = 8
_OF_ONE_HOST = 7  # seven eighths of the places
_CALLERS = 10 * _OF_ONE_HOST
_CASES = {"small": 4096, "large": 16 << 20}  # bytes of an array
_PAUSES_MS = (120, 0)  # the server says 100, and the library adds up to a fifth


class Overload:

    def __init__(self, flags: argparse.Namespace, server: ServerProcess, other: ServerProcess):
        self._flags = flags
        self._addresses = (server.addresses[0], other.addresses[0])

    def _start(self, server: int, callers: int, bytes_: int, pause_ms: int) -> subprocess.Popen:
        command = (self._flags.callers, self._addresses[server], callers, bytes_, self._flags.seconds,
                   pause_ms)
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)

    def _ended(self, process: subprocess.Popen) -> dict:
        said, _ = process.communicate()
        line = json.loads(said)
        if line["failed"]:
            raise RuntimeError(f"calls failed: {line}")
        return {"goodput_per_s": line["right"] / self._flags.seconds,
                "refused_per_s": line["refused"] / self._flags.seconds, **line}

    def round(self, bytes_: int, pause_ms: int) -> dict:
        alone = self._ended(self._start(0, _OF_ONE_HOST, bytes_, pause_ms))
        overload = self._ended(self._start(0, _CALLERS, bytes_, pause_ms))
        rest = self._start(1, _CALLERS - _OF_ONE_HOST, bytes_, pause_ms)
        beside = self._ended(self._start(0, _OF_ONE_HOST, bytes_, pause_ms))
        refused = self._ended(rest)
        return {"capacity_per_s": alone["goodput_per_s"],
                "goodput_ratio": overload["goodput_per_s"] / alone["goodput_per_s"],
                "control_ratio": beside["goodput_per_s"] / alone["goodput_per_s"],
                "refused_per_s": overload["refused_per_s"],
                "control_refused_per_s": refused["refused_per_s"],
                "refused_p50_ms": overload["refused_p50_us"] / 1e3,
                "refused_p99_ms": overload["refused_p99_us"] / 1e3,
                "capacity_p99_ms": alone["right_p99_us"] / 1e3}


def median_of(rounds: list[dict]) -> dict:
    return {key: round(statistics.median(one[key] for one in rounds), 4) for key in rounds[0]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--callers", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each side of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args()


def main() -> None:
    flags = parse()
    command = (flags.bin / "warpfold-server", "--listen=127.0.0.1:0", f"--device={flags.device}",
               f"--max_concurrent_reductions={_PLACES}")
    with ServerProcess(*command) as server, ServerProcess(*command) as other, \
            open(flags.output, "w", encoding="utf-8") as output:
        overload = Overload(flags, server, other)
        for name, bytes_ in _CASES.items():
            for pause_ms in _PAUSES_MS:
                result = median_of([overload.round(bytes_, pause_ms) for _ in range(flags.rounds)])
                line = {"bench": "overload", "case": name, "operator": "sum", "dtype": "int32",
                        "bytes": bytes_, "pause_ms": pause_ms,
                        "places": _PLACES, "callers": _CALLERS, "rounds": flags.rounds, **result,
                        "peak_mib": round(peak_mib(server.pid)), "device": server.device,
                        "commit": flags.commit,
                        "date": datetime.date.today().isoformat()}
                print(json.dumps(line), flush=True)
                print(json.dumps(line), file=output, flush=True)


if __name__ == "__main__":
    main()
