# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Calls over networks with faults end with the right value or a clear status, and the server is whole after
them. Each network has a seed of its own:

  WARPFOLD_FAULT_NETWORKS=200 ctest --preset dev -R e2e_faults   as many of them
  WARPFOLD_FAULT_SEED=17 ctest --preset dev -R e2e_faults        that one alone
"""

import collections
import itertools
import os
import random
import re
import subprocess
import unittest

import fault_proxy
from at_rest import await_rest
from executables import Server, TestCase, warpfold

_NETWORKS = int(os.environ.get("WARPFOLD_FAULT_NETWORKS", "12"))
_SEED = os.environ.get("WARPFOLD_FAULT_SEED")
_CALLS = 24
_TIMEOUT_S = 4
_LONGEST_S = 200
# What a broken network makes of a call.
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
            # and on a busy machine that is after the server has said READY.
            self.assertEqual(self.steady(server.address, 60), ["failed 0 of 24"])
            at_start = await_rest(admin)
            for seed in seeds:
                with self.subTest(f"WARPFOLD_FAULT_SEED={seed}"):
                    with fault_proxy.FaultProxy(server.address, seed) as proxy:
                        ends += self.call_through(proxy.address)
                    met += proxy.met
                    await_rest(admin, at_start.descriptors)
            self.assertEqual(self.steady(server.address, 60), ["failed 0 of 24"])
        print(f"{len(seeds)} networks: calls {dict(ends)}, faults {dict(met)}")
        if len(seeds) >= 12:  # the test says nothing of what does not happen
            self.assertEqual(set(met), set(fault_proxy.KINDS) - {"none"})
            self.assertGreater(ends["OK"], sum(ends.values()) / 4)
            self.assertTrue(_CLEAR & set(ends))

    def test_a_probe_is_asked_again_where_its_connection_breaks(self):
        """As when a server ends that has just been asked: here it breaks in the middle of the answer."""
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

    def call_through(self, address: str) -> collections.Counter:
        """The client library's small and striped calls, and the command line's, all at once."""
        shells = [self.start("reduce", "--target", address, "--op", "sum", "--iota", str(_IOTA), "--streams",
                             streams, "--timeout", str(_TIMEOUT_S), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) for streams in ("1", "3")]
        *failures, summary = self.steady(address, _TIMEOUT_S)
        self.assertEqual(summary, f"failed {len(failures)} of {_CALLS}")
        ends = collections.Counter(OK=_CALLS - len(failures))
        for failure in failures:
            ends[self.clear_status(failure)] += 1
        for shell in shells:
            out, error = (text.decode() for text in shell.communicate(timeout=_LONGEST_S))
            if shell.returncode == 0:
                self.assertEqual(out.split(), ["sum", _SUM])
                ends["OK"] += 1
            else:
                self.assertEqual((shell.returncode, out), (1, ""), error)
                ends[self.clear_status(error)] += 1
        return ends

    def clear_status(self, text: str) -> str:
        code = re.search(r"[A-Z_]{5,}", text)
        self.assertIsNotNone(code, text)
        self.assertIn(code[0], _CLEAR, text)
        return code[0]

    def steady(self, address: str, timeout_s: int) -> list[str]:
        done = subprocess.run([os.environ["WARPFOLD_STEADY_CALLERS"], address, str(_CALLS), str(timeout_s)],
                              stdout=subprocess.PIPE, text=True, timeout=_LONGEST_S, check=True)
        return done.stdout.splitlines()


if __name__ == "__main__":
    unittest.main()
