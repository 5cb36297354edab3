# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A greedy caller beside a modest one, and how the server's work is shared between them.

python3 fairness.py [SECONDS] prints a JSON object for each transport and kind of load: what the modest one
gets alone and beside 64 streams of the greedy one, with one stream and with eight; and Jain's index of what
the two get by the second, where the modest one has eight. They are told apart by certificates, over TLS, and
if root runs this by their users, on a Unix socket. Environment: as executables.py; needs openssl.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Iterator

from executables import Server
from keys import make_keys

_GREEDY_STREAMS = 64
_MODEST_STREAMS = 8
_WARM_UP_S = 3.0
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
                                 "--duration", str(seconds), "--rounds", "1", "--json"],
                                stdout=subprocess.PIPE, text=True, user=self.user, env={})


def _result(process: subprocess.Popen) -> dict:
    answer = json.loads(process.communicate()[0].splitlines()[0])
    return {key: answer[key] for key in ("calls_per_s", "p50_us", "p99_us")}


def jain(shares: list[float]) -> float:
    """Jain, Chiu and Hawe (1984): 1 where all have the same, 1/n where one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def measure(greedy: Caller, modest: Caller, load: tuple[str, ...], seconds: float) -> dict:
    def alone(streams: int) -> dict:
        return _result(modest.start(load, streams, seconds))

    def beside(streams: int) -> tuple[dict, dict]:
        other = greedy.start(load, _GREEDY_STREAMS, seconds + 2 * _WARM_UP_S)
        time.sleep(_WARM_UP_S)
        return alone(streams), _result(other)

    one_alone, (one_beside, _) = alone(1), beside(1)
    many_alone, (many_beside, greedys) = alone(_MODEST_STREAMS), beside(_MODEST_STREAMS)
    return {"jain": round(jain([many_beside["calls_per_s"], greedys["calls_per_s"]]), 3),
            "p50_ratio": round(one_beside["p50_us"] / one_alone["p50_us"], 2),
            "p99_ratio": round(one_beside["p99_us"] / one_alone["p99_us"], 2),
            "one_alone": one_alone, "one_beside": one_beside,
            "eight_alone": many_alone, "eight_beside": many_beside, "greedy_beside_eight": greedys}


@contextlib.contextmanager
def by_certificates(folder: str) -> Iterator[list[Caller]]:
    cert, key = make_keys(folder, "server")
    flags, authority = [], os.path.join(folder, "authority.pem")
    with open(authority, "wb") as together:
        for name in ("greedy", "modest"):
            own = make_keys(folder, name, names=f"DNS:{name}.example")
            flags.append(("--tls_ca", cert, "--tls_cert", own[0], "--tls_key", own[1]))
            with open(own[0], "rb") as one:
                shutil.copyfileobj(one, together)
    with Server(f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={authority}", _PLACES) as server:
        yield [Caller(os.environ["WARPFOLD_CLI"], ("--target", server.address, *own)) for own in flags]


@contextlib.contextmanager
def by_users(folder: str) -> Iterator[list[Caller]]:
    os.chmod(folder, 0o755)
    command = shutil.copy(os.environ["WARPFOLD_CLI"], folder)
    with Server(_PLACES, listen=f"unix:{folder}/s") as server:
        os.chmod(f"{folder}/s", 0o777)
        yield [Caller(command, ("--target", server.address), user) for user in (65533, 65534)]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    for transport, callers in (("TLS", by_certificates), ("Unix socket", by_users)):
        if callers is by_users and os.geteuid() != 0:
            continue
        with tempfile.TemporaryDirectory() as folder, callers(folder) as (greedy, modest):
            for name, load in _LOADS.items():
                result = measure(greedy, modest, load, seconds)
                print(json.dumps({"transport": transport, "arrays": name, **result}), flush=True)


if __name__ == "__main__":
    main()
