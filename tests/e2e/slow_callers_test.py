# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Callers who make the CPU reduce kept arrays with slow operators, and others beside them."""

import json
import unittest

import numpy

import http_pages
from executables import Server, TestCase, value, warpfold

_SLOW_CALLERS = 8
_SMALL_CALLS = 5
_MATRICES = 16384  # of 32 x 32, 128 MiB
_SLOW = ("--op=matrix_product", "--modulus=9223372036854775783")


class SlowCallersTest(TestCase):
    def test_small_calls_end_before_slow_ones(self):
        small = self.save("small.npy", numpy.ones(1 << 17))
        elements = numpy.random.default_rng(1).integers(0, 1 << 63, _MATRICES * 1024, dtype=numpy.uint64)
        kept = self.save("kept.npy", elements)
        # With one thread for them the slow calls take seconds together. If calls were served first in, first
        # out, the first small one would end after all of them. Beside other tests some slow ones may end
        # before the last small one has begun.
        with Server("--admin_listen=127.0.0.1:0", "--cpu_threads=1",
                    f"--resident_bytes={2 * elements.nbytes}") as server:
            done = warpfold("put", "--target", server.address, "--json", "--matrix=32x32", kept)
            self.assertEqual(done.returncode, 0, done.stderr)
            token = json.loads(done.stdout)["token"]
            slow = [self.start("reduce", "--target", server.address, *_SLOW, "--array", token)
                    for _ in range(_SLOW_CALLERS)]
            http_pages.wait_until(
                lambda: http_pages.metric(server.ready_line, "warpfold_reductions_in_progress") == len(slow),
                "slow calls")
            for _ in range(_SMALL_CALLS):
                self.assertEqual(value(server.address, "sum", small), 1 << 17)
            ended = [process.poll() for process in slow]
            self.assertIn(None, ended, "all slow calls ended before small ones that came later")
            for process in slow:
                process.kill()  # the server would wait for them


if __name__ == "__main__":
    unittest.main()
