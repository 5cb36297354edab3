# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the way in: `warpfold bench` over everything that affects it, beside its sinks and Arrow Flight.

    python3 way_in.py --bin DIR --output FILE [--device cpu|cuda:N] [--quick | --budget_s S] [--commit HASH]
                      [--cases NAME ...]

DIR holds warpfold-server and warpfold. If cases are named, they alone share the time. JSON lines go to FILE,
each with its case; a table is printed at the end. Flight takes part if pyarrow can be imported. Needs only
the standard library.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from processes import ServerProcess
from report import measurements

_HERE = pathlib.Path(__file__).resolve().parent
_QUICK_BUDGET_S = 240
_SINKS = 5
_ROUNDS = 3
_WARM_UP_SHARE = 0.15  # of a side's turn
# The time of a case in addition to its turns: processes, the filling of its memory, the last calls.
_OVERHEAD_S = 1.5
_LEAST_TURN_S = 0.3
# More than callers: a call that got its response may still be counted when its caller's next one comes.
_ADMITTED = 256
_LARGE = ("--method", "reduce", "--callers", "8")
_IN_PLACE_BYTES = 4 << 30  # of an array that lies on the GPU
_RESIDENT_BYTES = 5 << 30  # an eighth is left for others
_ROW_BYTES = (1 << 10, 1 << 14, 1 << 17, 1 << 20)
# For arrays on the GPU, for which a call takes a few milliseconds at most.
_IN_PLACE_WEIGHT = 0.5
# Without its warm-up, 10^5 calls of up to 59 us: the goal of the 99th percentile needs this many.
_LONG_TURN_S = 7.0


class Case(NamedTuple):
    """The arguments for `warpfold bench`."""

    name: str
    transport: str
    arguments: tuple
    streams: int = 1
    baseline: bool = True
    flight: bool = False
    generated: bool = False  # the server is loaded by generated classes, too
    beside_large: bool = False  # while eight other callers send large arrays
    socket: bool = False  # the memory is at the server, which has to be told where
    weight: float = 1  # of its turns, in time
    turn_s: float = 0  # if not 0, the time of each of its turns, whatever the budget

    def turns(self, has_flight: bool) -> int:
        return 1 + (_SINKS if self.baseline else 0) + self.generated + (self.flight and has_flight)


def all_cases(bytes_: int, device: str, advised_streams: int) -> list:
    cases = []
    for transport in ("tcp", "unix"):
        for streams in (1, 2, 4, 8):
            arguments = ("--method", "reduce", "--bytes", str(bytes_), "--streams", str(streams))
            cases.append(Case("streams", transport, arguments, streams=streams, flight=True))
        cases.append(Case("streams_as_advised", transport, ("--bytes", str(bytes_), "--streams", "0"),
                          streams=advised_streams, baseline=False, flight=True))
        for callers in (1, 4):
            arguments = ("--method", "reduce", "--bytes", str(bytes_ // callers), "--callers", str(callers))
            cases.append(Case(f"generated_x{callers}", transport, arguments, baseline=False, generated=True))
        array = ("--method", "array", "--bytes", "4096")
        small = ("--method", "array", "--bytes", "1024")
        cases += [
            Case("array_4_kib", transport, array, weight=0.6),
            Case("empty_call", transport, ("--method", "health"), weight=0.6),
            Case("array_4_kib_long", transport, array, baseline=False, turn_s=_LONG_TURN_S),
            Case("array_after_pause", transport, (*array, "--pause_ms", "5"), weight=0.6),
            Case("array_after_long_pause", transport, (*array, "--pause_ms", "500"), baseline=False,
                 weight=2),
            Case("64_callers_1_mib", transport,
                 ("--method", "reduce", "--bytes", str(1 << 20), "--callers", "64")),
            Case("array_1_kib", transport, small, baseline=False),
            Case("array_1_kib_beside_streams", transport, small, beside_large=True)]
    return cases + [case for transport in ("unix", "tcp")
                    for case in cases_in_place(transport, bytes_, on_gpu=device != "cpu")]


def cases_in_place(transport: str, bytes_: int, on_gpu: bool) -> list:
    """Arrays that need no transfer, except the last. The calls about them use the transport; the memory
    itself is named over the memory socket, which is a Unix socket."""
    def case(name: str, source: str, size: int, *arguments: str) -> Case:
        needs_socket = source != "resident" or "--results" in arguments
        return Case(name, transport, ("--source", source, "--bytes", str(size), "--memory_bytes", str(size),
                                      *arguments), baseline=False, socket=needs_socket,
                    weight=_IN_PLACE_WEIGHT if on_gpu and source != "memory" else 1)

    sizes = (bytes_, _IN_PLACE_BYTES) if on_gpu else (bytes_,)
    cases = [case("memory", "memory", bytes_)]
    if on_gpu:
        cases += [case(source, source, size) for source in ("ipc", "resident") for size in sizes]
    def rows(suffix: str, size: int, *arguments: str) -> list:
        return [case(f"rows_of_{row >> 10}_kib{suffix}", "resident", size, "--segment_length", str(row // 4),
                     *arguments) for row in _ROW_BYTES]

    for size in sizes:
        cases += rows("", size)
    cases += rows("_to_memory", sizes[-1], "--results", "shared")
    if on_gpu:
        cases += rows("_to_gpu_memory", sizes[-1], "--results", "gpu")
    return cases + [Case("rows_streamed", transport, ("--bytes", str(bytes_), "--segment_length", "256"),
                         baseline=False)]


class Clock:
    """Divides what is left of the budget among the cases that are left."""

    def __init__(self, budget_s: float, cases: list, has_flight: bool):
        self._end = time.monotonic() + budget_s
        self._left = [(case, case.turns(has_flight)) for case in cases]
        self._overheads = [_OVERHEAD_S]  # of the cases so far
        self._planned_end = None

    def next_turn_s(self) -> float:
        """The time of each side of the next case; 0 if there is no time for it."""
        now = time.monotonic()
        if self._planned_end is not None:
            self._overheads.append(now - self._planned_end)
        overhead_s = sum(self._overheads) / len(self._overheads)
        left_s = self._end - now - overhead_s * len(self._left)
        to_share_s = left_s - sum(turns * case.turn_s for case, turns in self._left)
        loads = sum(turns * case.weight for case, turns in self._left if not case.turn_s)
        case, turns = self._left.pop(0)
        turn_s = case.turn_s or max(to_share_s / loads * case.weight, _LEAST_TURN_S)
        self._planned_end = now + turns * turn_s
        if turn_s * turns > max(left_s, 0) + _LEAST_TURN_S:
            self._planned_end = None
            return 0
        return turn_s


def times(turn_s: float, flags: argparse.Namespace) -> list:
    warm_up_s = _WARM_UP_SHARE * turn_s
    return ["--rounds", str(_ROUNDS), "--warm_up", f"{warm_up_s:.3f}", "--commit", flags.commit,
            "--duration", f"{(turn_s - warm_up_s) / _ROUNDS:.3f}"]


def lines_of(command: list) -> list:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class WayIn:

    def __init__(self, flags: argparse.Namespace, server: ServerProcess, memory_socket: str):
        self._flags = flags
        self._server = server
        self._memory_socket = memory_socket
        self.has_flight = importlib.util.find_spec("pyarrow") is not None

    def advised_streams(self) -> int:
        info = lines_of([self._flags.bin / "warpfold", "info", "--json", "--target",
                         self._server.addresses[0]])[0]
        return info["transfer_advice"]["streams"]

    def _bench(self, transport: str, *arguments) -> list:
        address = next(a for a in self._server.addresses if a.startswith("unix:") == (transport == "unix"))
        memory = () if "--memory_bytes" in arguments else ("--memory_bytes", self._flags.bytes)
        return [self._flags.bin / "warpfold", "bench", "--json", "--target", address, "--server_pid",
                self._server.pid, *memory, *arguments]

    def run(self, case: Case, turn_s: float) -> list:
        sides = ["--baseline"] * case.baseline + ["--generated"] * case.generated
        sides += ["--memory_socket", self._memory_socket] * case.socket
        command = self._bench(case.transport, *case.arguments, *sides, *times(turn_s, self._flags))
        lines = self._beside_large(case, command, turn_s) if case.beside_large else lines_of(command)
        if case.flight and self.has_flight:
            lines += lines_of([sys.executable, "-B", _HERE / "flight.py", "--transport", case.transport,
                               "--streams", case.streams, "--bytes", self._flags.bytes,
                               *times(turn_s, self._flags)])
        for line in lines:
            if line["side"] == "flight":
                line["rate_ratio"] = round(lines[0]["gbps"] / line["gbps"], 4)
        return [{"case": case.name, "server": self._server.device, **line} for line in lines]

    def _beside_large(self, case: Case, command: list, turn_s: float) -> list:
        """The large streams begin before, and end after; their own figures are not kept. They load the
        server; if the small calls go to a sink, they load only the machine."""
        large = self._bench(case.transport, *_LARGE, "--bytes", max(self._flags.bytes // 8, 1 << 20),
                            "--rounds", 1, "--warm_up", 0,
                            "--duration", f"{2 * case.turns(False) * turn_s + 2 * _OVERHEAD_S:.3f}")
        beside = subprocess.Popen([str(word) for word in large], stdout=subprocess.DEVNULL)
        try:
            time.sleep(_OVERHEAD_S)
            return lines_of(command)
        finally:
            beside.terminate()
            beside.wait()


def table(lines: list) -> str:
    """One row per case, one column per side: GB/s if arrays stream, otherwise the median in us."""
    rows: dict = {}
    sides = list(dict.fromkeys(line["side"] for line in lines))
    for line in lines:
        streams = line["method"] == "reduce"
        key = (measurements.load_name(line), line["transport"], "GB/s" if streams else "p50 us")
        rows.setdefault(key, {})[line["side"]] = line["gbps" if streams else "p50_us"]
    text = [" ".join([f"{'':40}", *(f"{side:>13}" for side in sides)])]
    for (name, transport, unit), figures in rows.items():
        cells = (f"{figures[side]:13.4g}" if side in figures else f"{'-':>13}" for side in sides)
        text.append(" ".join([f"{name:28}{transport:6}{unit:6}", *cells]))
    return "\n".join(text)


def parse(arguments: list) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--server_flags", default="", help="further flags of the server, separated by blanks")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the large array, and of the memory")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--budget_s", type=float, default=900)
    budget.add_argument("--quick", action="store_const", dest="budget_s", const=_QUICK_BUDGET_S,
                        help=f"within {_QUICK_BUDGET_S} s")
    parser.add_argument("--cases", nargs="+", help="their names, as the table has them; else all")
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args(arguments)


def main() -> int:
    flags = parse(sys.argv[1:])
    begin = time.monotonic()
    lines, failures = [], 0
    with tempfile.TemporaryDirectory() as folder, open(flags.output, "w", encoding="utf-8") as output:
        memory_socket = f"{folder}/memory"
        with ServerProcess(flags.bin / "warpfold-server", f"--listen=127.0.0.1:0,unix:{folder}/socket",
                           f"--device={flags.device}", f"--max_concurrent_reductions={_ADMITTED}",
                           f"--memory_socket={memory_socket}", f"--resident_bytes={_RESIDENT_BYTES}",
                           *flags.server_flags.split()) as server:
            way_in = WayIn(flags, server, memory_socket)
            cases = [case for case in all_cases(flags.bytes, server.device, way_in.advised_streams())
                     if flags.cases is None or case.name in flags.cases]
            # A part of the time is left for the server's start and end.
            clock = Clock(flags.budget_s * 0.95 - (time.monotonic() - begin), cases, way_in.has_flight)
            for case in cases:
                turn_s = clock.next_turn_s()
                if not turn_s:
                    print(f"no time left for {case.name} x{case.streams}, {case.transport}", file=sys.stderr)
                    continue
                try:
                    new = way_in.run(case, turn_s)
                except RuntimeError as error:
                    failures += 1
                    print(error, file=sys.stderr, flush=True)
                    continue
                lines += new
                print("".join(f"{json.dumps(line)}\n" for line in new), end="", file=output, flush=True)
    print(table(lines))
    print(f"{len(lines)} lines in {time.monotonic() - begin:.0f} s: {flags.output}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
