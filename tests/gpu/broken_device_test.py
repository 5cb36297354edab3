# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A real GPU that fails while its server is loaded: nobody gets a value, probes see it, the process ends.

Needs a GPU, Python's standard library and NumPy. Environment: WARPFOLD_BREAKING_SERVER, WARPFOLD_SERVER,
WARPFOLD_CLI. Prints a JSON line of times for each kind of failure; no test looks at them.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from executables import Server, start_warpfold, value  # noqa: E402
from http_pages import get  # noqa: E402

_TIMEOUT_S = 60
_LOAD = ("--method", "array", "--bytes", "1048576", "--callers", "4", "--duration", "60", "--json")


def serve(executable: str = "WARPFOLD_SERVER") -> Server:
    with unittest.mock.patch.dict(os.environ, WARPFOLD_SERVER=os.environ[executable]):
        return Server("--admin_listen=127.0.0.1:0", device="cuda:0")


class BrokenDeviceTest(unittest.TestCase):

    def break_by(self, number: int, name: str):
        with serve("WARPFOLD_BREAKING_SERVER") as server:
            load = self.load(server)
            admin = server.ready_line.rpartition("admin=")[2].split()[0]
            self.assertEqual(get(admin, "/readyz")[0], 200)
            broken_at = time.monotonic()
            server.process.send_signal(number)
            while get(admin, "/readyz")[0] == 200:
                self.assertLess(time.monotonic() - broken_at, _TIMEOUT_S)
            seen_at = time.monotonic()
            self.assertEqual(server.process.wait(_TIMEOUT_S), 4, server.log())
            ended_at = time.monotonic()
            server.kill()  # it has ended as it should, and not with 0
        error = load.communicate(timeout=_TIMEOUT_S)[1].decode()
        self.assertEqual(load.returncode, 1)
        self.assertIn("UNAVAILABLE", error)
        with serve() as again:
            ready_at = time.monotonic()
            self.assertEqual(value(again.address, "sum", "--iota", "1000000"), 499_999_500_000)
        print(json.dumps({"test": "broken_device", "how": name,
                          "not_ready_ms": round(1e3 * (seen_at - broken_at)),
                          "ended_ms": round(1e3 * (ended_at - broken_at)),
                          "ready_again_ms": round(1e3 * (ready_at - ended_at))}), flush=True)

    def load(self, server: Server) -> subprocess.Popen:
        self.assertEqual(value(server.address, "sum", "--iota", "1000000"), 499_999_500_000)
        load = start_warpfold("bench", "--target", server.address, *_LOAD, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        self.addCleanup(load.kill)
        time.sleep(2)
        return load

    def test_a_kernel_that_writes_where_it_may_not(self):
        self.break_by(signal.SIGUSR1, "illegal address")

    def test_a_kernel_that_never_ends(self):
        self.break_by(signal.SIGUSR2, "never ends")


if __name__ == "__main__":
    unittest.main()
