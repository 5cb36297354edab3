# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls over networks with faults end with the right value or a clear status, and the server is unharmed
afterwards. Changes on the way, which TCP's own checksum may miss, are found by --checksum. Each network has
its own seed:

  WARPFOLD_FAULT_NETWORKS=200 ctest --preset dev -R e2e_faults   as many of them
  WARPFOLD_FAULT_SEED=17 ctest --preset dev -R e2e_faults        only this one
"""

import collections
import concurrent.futures
import itertools
import os
import random
import re
import subprocess
import time
import unittest

import fault_proxy
from at_rest import await_rest
from executables import Server, TestCase, warpfold
from proxy import proxy

_NETWORKS = int(os.environ.get("WARPFOLD_FAULT_NETWORKS", "12"))
_SEED = os.environ.get("WARPFOLD_FAULT_SEED")
_CALLS = 24
_TIMEOUT_S = 4
# What may be added to it: a call whose peer has stopped reading takes 3 s more (CallOptions::timeout), and
# the machine may be busy.
_BEYOND_S = 3 + 10
_LONGEST_S = 200
# The statuses that a broken network may cause.
_CLEAR = {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
_IOTA = 3_000_000
_SUM = str(_IOTA * (_IOTA - 1) // 2)


class FaultsTest(TestCase):
    def test_right_or_clear(self):
        seeds = [int(_SEED)] if _SEED is not None else range(1, _NETWORKS + 1)
        ends, met = collections.Counter(), collections.Counter()
        with Server("--admin_listen=127.0.0.1:0") as server:
            admin = re.search(r" admin=(\S+)", server.ready_line)[1]
            # Not before the first calls: a shard's thread opens a descriptor when it first waits for events,
            # and on a busy machine that is after the server has printed READY.
            self.assertEqual(self.steady(server.address, 60)[0], ["failed 0 of 24"])
            at_start = await_rest(admin)
            for seed in seeds:
                with self.subTest(f"WARPFOLD_FAULT_SEED={seed}"):
                    with fault_proxy.FaultProxy(server.address, seed) as proxy:
                        ends += self.call_through(proxy.address)
                    met += proxy.met
                    await_rest(admin, at_start.descriptors)
            self.assertEqual(self.steady(server.address, 60)[0], ["failed 0 of 24"])
        print(f"{len(seeds)} networks: calls {dict(ends)}, faults {dict(met)}")
        if len(seeds) >= 12:  # the test proves nothing about what does not happen
            self.assertEqual(set(met), set(fault_proxy.KINDS) - {"none"})
            self.assertGreater(ends["OK"], sum(ends.values()) / 4)
            self.assertTrue(_CLEAR & set(ends))

    def test_nobody_answers_who_connects(self):
        with fault_proxy.SilentAddress() as nobody, Server() as server:
            ends = self.call_through(nobody.address)
            self.assertEqual(ends["OK"], 0)
            both = f"{nobody.address},{server.address}"
            start = time.monotonic()
            done = warpfold("health", "--target", both)
            self.assertEqual((done.returncode, done.stdout), (0, "SERVING\n"), done.stderr)
            self.assertLess(time.monotonic() - start, 5)
            for flags in (("--iota", "5"), ("--iota", str(_IOTA)), ("--iota", str(_IOTA), "--streams", "3")):
                done = warpfold("reduce", "--target", both, "--op", "max", "--timeout", "10", *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
            lines, _ = self.steady(both.replace(",", ";"), 10)
            self.assertEqual(lines, [f"failed 0 of {_CALLS}"])

    def test_a_probe_is_asked_again_where_its_connection_breaks(self):
        """As when a server ends that has just been asked: here it breaks in the middle of the response."""
        def breaks_once(seed: int) -> bool:
            chance = random.Random(seed)
            first, second = (fault_proxy.Fault.draw(chance) for _ in range(2))
            kinds = (first.kind, first.upward, second.kind)
            return kinds == ("reset", False, "none") and 49 < first.after < 70

        seed = next(seed for seed in itertools.count() if breaks_once(seed))
        with Server() as server, fault_proxy.FaultProxy(server.address, seed) as proxy:
            done = warpfold("health", "--target", proxy.address)
            self.assertEqual((done.returncode, done.stdout), (0, "SERVING\n"), done.stderr)
            self.assertEqual(proxy.met, {"reset": 1})

    def test_a_checksum_finds_what_was_changed(self):
        """Changes one byte of the array, in the middle of what is sent; without a checksum nobody notices."""
        elements = b"\x55" * (1 << 21)
        run, changed = elements[:64], []

        def change(data: bytes, before: int) -> bytes:
            if changed or before < 1 << 19 or run not in data:
                return data
            changed.append(before)
            return data.replace(run, b"\x56" + run[1:], 1)

        def reduce(address: str, *flags: str) -> subprocess.CompletedProcess:
            return warpfold("reduce", "--target", address, "--op", "sum", "--dtype", "uint8", *flags,
                            stdin=elements if "-" in flags else b"")

        path = self.file("x", elements)
        with Server() as server, proxy(server.address, change) as address:
            for way in ((path,), (path, "--streams", "4"), ("-",), (path, "--segment_length", "1048576")):
                with self.subTest(way[1:] or way):
                    right = reduce(server.address, *way).stdout
                    changed.clear()
                    refused = reduce(address, *way, "--checksum")
                    self.assertEqual(refused.returncode, 1)  # segments are printed before their end has come
                    self.assertIn("DATA_LOSS", refused.stderr)
                    # No other byte is changed.
                    self.assertEqual(reduce(address, *way, "--checksum").stdout, right)
                    changed.clear()
                    wrong = reduce(address, *way)
                    self.assertEqual(wrong.returncode, 0, wrong.stderr)
                    self.assertNotEqual(wrong.stdout, right)

    def call_through(self, address: str) -> collections.Counter:
        """The client library's small and striped calls, and the command line's, all at once."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            shells = [pool.submit(self.shell, address, streams) for streams in ("1", "3")]
            (*failures, summary), slowest_s = self.steady(address, _TIMEOUT_S)
        self.assertEqual(summary, f"failed {len(failures)} of {_CALLS}")
        self.assertLess(slowest_s, _TIMEOUT_S + _BEYOND_S)
        ends = collections.Counter(OK=_CALLS - len(failures))
        for failure in failures:
            ends[self.clear_status(failure)] += 1
        for done, took_s in (shell.result() for shell in shells):
            self.assertLess(took_s, _TIMEOUT_S + _BEYOND_S)
            if done.returncode == 0:
                self.assertEqual(done.stdout.split(), ["sum", _SUM])
                ends["OK"] += 1
            else:
                self.assert_exit(1, done)
                ends[self.clear_status(done.stderr)] += 1
        return ends

    @staticmethod
    def shell(address: str, streams: str) -> tuple[subprocess.CompletedProcess, float]:
        """A call of the command line, and the seconds that it took."""
        start = time.monotonic()
        done = warpfold("reduce", "--target", address, "--op", "sum", "--iota", str(_IOTA), "--streams",
                        streams, "--timeout", str(_TIMEOUT_S))
        return done, time.monotonic() - start

    def clear_status(self, text: str) -> str:
        code = re.search(r"[A-Z_]{5,}", text)
        self.assertIsNotNone(code, text)
        self.assertIn(code[0], _CLEAR, text)
        return code[0]

    def steady(self, address: str, timeout_s: int) -> tuple[list[str], float]:
        """What callers print, and the seconds that the slowest call took."""
        done = subprocess.run([os.environ["WARPFOLD_STEADY_CALLERS"], address, str(_CALLS), str(timeout_s)],
                              stdout=subprocess.PIPE, text=True, timeout=_LONGEST_S, check=True)
        *lines, slowest_s = done.stdout.splitlines()
        return lines, float(slowest_s)


if __name__ == "__main__":
    unittest.main()
