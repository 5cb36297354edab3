# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A greedy caller beside a modest one, and how the server's work is shared between them.

python3 fairness.py [SECONDS [WORD [apart]]] prints a JSON object for each transport and kind of load, or for
those with the word in their names: what the modest caller gets alone and beside 64 streams of the greedy one,
with one stream and with eight; and Jain's index of what the two get per second when the modest one has eight.
In the last kind the greedy one is eight callers who have a kept array reduced by slow operators, and the
modest one sends small arrays to sum: there is no index. In the control the greedy one calls another server
process: the loss that remains is then due to the machine and not to any server. Both begin and end together,
so that neither's figure includes a time when it was alone. They are distinguished by certificates, over TLS,
and if root runs this by their users, on a Unix socket.

With `apart` the servers have half of the processors for themselves, and each of the two callers has a
quarter: as on separate machines, clients take no processor from a server, nor from each other.

Environment: as executables.py; needs openssl.
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

_MODEST_STREAMS = 8
_WARM_UP_S = 3.0  # of each, before its figures begin
_SLOW_CALLERS = 8
_KEPT_BYTES = 32 << 20  # of each of them
# One party may have half of the memory for kept arrays.
_FLAGS = ("--max_concurrent_reductions=128", f"--resident_bytes={3 * _SLOW_CALLERS * _KEPT_BYTES}")


@dataclasses.dataclass(frozen=True)
class Load:  # flags of warpfold bench
    modest: tuple[str, ...]
    greedy: tuple[str, ...]
    greedy_streams: int = 64

    @property
    def alike(self) -> bool:
        return self.modest == self.greedy


def _sent(op: str, array_bytes: int, memory_bytes: int) -> tuple[str, ...]:
    return ("--op", op, "--bytes", str(array_bytes), "--memory_bytes", str(memory_bytes))


_LARGE = _sent("logsumexp", 16 << 20, 1 << 30)
_MESSAGE = _sent("exact_sum", 1 << 20, 64 << 20)
_SLOW = ("--source", "resident", "--dtype", "float64", "--op",
         "exact_sum,logsumexp,describe,max_subarray_sum,stddev,l2_norm,product,minmax",
         "--bytes", str(_KEPT_BYTES), "--memory_bytes", str(_SLOW_CALLERS * _KEPT_BYTES))
_LOADS = {
    "beyond a stream's window": Load(_LARGE, _LARGE),
    "one message": Load(_MESSAGE, _MESSAGE),
    "small beside slow operators": Load(_sent("sum", 1 << 20, 64 << 20), _SLOW, greedy_streams=_SLOW_CALLERS),
}


@dataclasses.dataclass(frozen=True)
class Caller:
    command: str  # the command line's executable
    flags: tuple[str, ...]
    user: int | None = None
    processors: tuple[int, ...] = ()  # all if empty

    def start(self, load: tuple[str, ...], streams: int, seconds: float) -> subprocess.Popen:
        where = ("taskset", "-c", ",".join(map(str, self.processors))) if self.processors else ()
        return subprocess.Popen([*where, self.command, "bench", *self.flags, *load, "--callers", str(streams),
                                 "--duration", str(seconds), "--warm_up", str(_WARM_UP_S), "--rounds", "1",
                                 "--json"],
                                stdout=subprocess.PIPE, text=True, user=self.user, env={})


def _result(process: subprocess.Popen) -> dict:
    answer = json.loads(process.communicate()[0].splitlines()[0])
    return {key: answer[key] for key in ("calls_per_s", "p50_us", "p99_us")}


def jain(shares: list[float]) -> float:
    """Jain, Chiu and Hawe (1984): 1 if all have the same, 1/n if one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


@dataclasses.dataclass(frozen=True)
class Callers:
    greedy: Caller
    modest: Caller
    elsewhere: Caller  # the greedy one at another server


def apart(callers: Callers, processors: list[int]) -> Callers:
    """On the half of the processors that servers do not have."""
    modest = tuple(processors[-max(len(processors) // 4, 1):])
    greedy = tuple(processors[len(processors) // 2:-len(modest)]) or modest
    return Callers(dataclasses.replace(callers.greedy, processors=greedy),
                   dataclasses.replace(callers.modest, processors=modest),
                   dataclasses.replace(callers.elsewhere, processors=greedy))


def measure(callers: Callers, load: Load, seconds: float) -> dict:
    def alone(streams: int) -> dict:
        return _result(callers.modest.start(load.modest, streams, seconds))

    def beside(greedy: Caller, streams: int) -> tuple[dict, dict]:
        other = greedy.start(load.greedy, load.greedy_streams, seconds)
        return alone(streams), _result(other)

    def ratios(prefix: str, one_alone: dict, greedy: Caller) -> dict:
        (one, _), (many, others) = beside(greedy, 1), beside(greedy, _MODEST_STREAMS)
        index = {f"{prefix}jain": round(jain([many["calls_per_s"], others["calls_per_s"]]), 3)}
        return {**(index if load.alike else {}),
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
    allowed = os.path.join(folder, "allowed")
    with open(allowed, "w", encoding="ascii") as everything:
        everything.write("* *\n")
    server_flags = (f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={authority}",
                    f"--allow={allowed}", *_FLAGS)
    with Server(*server_flags) as server, Server(*server_flags) as another:
        yield Callers(*(Caller(os.environ["WARPFOLD_CLI"], ("--target", at.address, *own))
                        for at, own in ((server, flags[0]), (server, flags[1]), (another, flags[0]))))


@contextlib.contextmanager
def by_users(folder: str) -> Iterator[Callers]:
    os.chmod(folder, 0o755)
    command = shutil.copy(os.environ["WARPFOLD_CLI"], folder)
    with Server(*_FLAGS, listen=f"unix:{folder}/s") as server, \
            Server(*_FLAGS, listen=f"unix:{folder}/t") as another:
        for name in ("s", "t"):
            os.chmod(f"{folder}/{name}", 0o777)
        yield Callers(*(Caller(command, ("--target", at.address), user)
                        for at, user in ((server, 65533), (server, 65534), (another, 65533))))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    processors = sorted(os.sched_getaffinity(0))
    is_apart = sys.argv[3:] == ["apart"]
    if is_apart:
        os.sched_setaffinity(0, processors[:len(processors) // 2])  # of this process and its servers
    for transport, connect in (("TLS", by_certificates), ("Unix socket", by_users)):
        if connect is by_users and os.geteuid() != 0:
            continue
        with tempfile.TemporaryDirectory() as folder, connect(folder) as callers:
            for name, load in _LOADS.items():
                if word not in name:
                    continue
                result = measure(apart(callers, processors) if is_apart else callers, load, seconds)
                print(json.dumps({"transport": transport, "arrays": name, **result}), flush=True)


if __name__ == "__main__":
    main()
