# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A greedy caller beside a modest one, and how the server's work is shared between them.

python3 fairness.py [SECONDS] prints a JSON object for each transport and kind of load: what the modest one
gets alone and beside 64 streams of the greedy one, with one stream and with eight; and Jain's index of what
the two get by the second, where the modest one has eight. In the control the greedy one calls another server
process: what is then lost, no server has taken, but the machine. Both begin and end together, so that
neither's figure holds a time when it was alone. They are told apart by certificates, over TLS, and if root
runs this by their users, on a Unix socket. Environment: as executables.py; needs openssl.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Iterator

from executables import Server
from keys import make_keys

_GREEDY_STREAMS = 64
_MODEST_STREAMS = 8
_WARM_UP_S = 3.0  # of each, before its figures begin
_PLACES = "--max_concurrent_reductions=128"
_LOADS = {  # flags of warpfold bench
    "beyond a stream's window": ("--op", "logsumexp", "--bytes", str(16 << 20),
                                 "--memory_bytes", str(1 << 30)),
    "one message": ("--op", "exact_sum", "--bytes", str(1 << 20), "--memory_bytes", str(64 << 20)),
}


@dataclasses.dataclass(frozen=True)
class Caller:
    command: str  # the command line's executable
    flags: tuple[str, ...]
    user: int | None = None

    def start(self, load: tuple[str, ...], streams: int, seconds: float) -> subprocess.Popen:
        return subprocess.Popen([self.command, "bench", *self.flags, *load, "--callers", str(streams),
                                 "--duration", str(seconds), "--warm_up", str(_WARM_UP_S), "--rounds", "1",
                                 "--json"],
                                stdout=subprocess.PIPE, text=True, user=self.user, env={})


def _result(process: subprocess.Popen) -> dict:
    answer = json.loads(process.communicate()[0].splitlines()[0])
    return {key: answer[key] for key in ("calls_per_s", "p50_us", "p99_us")}


def jain(shares: list[float]) -> float:
    """Jain, Chiu and Hawe (1984): 1 where all have the same, 1/n where one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


@dataclasses.dataclass(frozen=True)
class Callers:
    greedy: Caller
    modest: Caller
    elsewhere: Caller  # the greedy one at another server


def measure(callers: Callers, load: tuple[str, ...], seconds: float) -> dict:
    def alone(streams: int) -> dict:
        return _result(callers.modest.start(load, streams, seconds))

    def beside(greedy: Caller, streams: int) -> tuple[dict, dict]:
        other = greedy.start(load, _GREEDY_STREAMS, seconds)
        return alone(streams), _result(other)

    def ratios(prefix: str, one_alone: dict, greedy: Caller) -> dict:
        (one, _), (many, others) = beside(greedy, 1), beside(greedy, _MODEST_STREAMS)
        return {f"{prefix}jain": round(jain([many["calls_per_s"], others["calls_per_s"]]), 3),
                f"{prefix}p50_ratio": round(one["p50_us"] / one_alone["p50_us"], 2),
                f"{prefix}p99_ratio": round(one["p99_us"] / one_alone["p99_us"], 2),
                f"{prefix}one_beside": one, f"{prefix}eight_beside": many,
                f"{prefix}greedy_beside_eight": others}

    one_alone, many_alone = alone(1), alone(_MODEST_STREAMS)
    return {**ratios("", one_alone, callers.greedy), **ratios("control_", one_alone, callers.elsewhere),
            "one_alone": one_alone, "eight_alone": many_alone}


@contextlib.contextmanager
def by_certificates(folder: str) -> Iterator[Callers]:
    cert, key = make_keys(folder, "server")
    flags, authority = [], os.path.join(folder, "authority.pem")
    with open(authority, "wb") as together:
        for name in ("greedy", "modest"):
            own = make_keys(folder, name, names=f"DNS:{name}.example")
            flags.append(("--tls_ca", cert, "--tls_cert", own[0], "--tls_key", own[1]))
            with open(own[0], "rb") as one:
                shutil.copyfileobj(one, together)
    server_flags = (f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={authority}", _PLACES)
    with Server(*server_flags) as server, Server(*server_flags) as another:
        yield Callers(*(Caller(os.environ["WARPFOLD_CLI"], ("--target", at.address, *own))
                        for at, own in ((server, flags[0]), (server, flags[1]), (another, flags[0]))))


@contextlib.contextmanager
def by_users(folder: str) -> Iterator[Callers]:
    os.chmod(folder, 0o755)
    command = shutil.copy(os.environ["WARPFOLD_CLI"], folder)
    with Server(_PLACES, listen=f"unix:{folder}/s") as server, \
            Server(_PLACES, listen=f"unix:{folder}/t") as another:
        for name in ("s", "t"):
            os.chmod(f"{folder}/{name}", 0o777)
        yield Callers(*(Caller(command, ("--target", at.address), user)
                        for at, user in ((server, 65533), (server, 65534), (another, 65533))))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    for transport, connect in (("TLS", by_certificates), ("Unix socket", by_users)):
        if connect is by_users and os.geteuid() != 0:
            continue
        with tempfile.TemporaryDirectory() as folder, connect(folder) as callers:
            for name, load in _LOADS.items():
                result = measure(callers, load, seconds)
                print(json.dumps({"transport": transport, "arrays": name, **result}), flush=True)


if __name__ == "__main__":
    main()
