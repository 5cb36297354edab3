# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays that stay at the server, and memory that it reads, used from the command line."""

import json
import pathlib
import tempfile
import unittest

import numpy

from executables import Server, warpfold
from http_pages import metric, wait_until


class KeptArraysTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.values = numpy.random.default_rng(1).standard_normal(300_001)
        self.file = self.folder / "values.npy"
        numpy.save(self.file, self.values)

    def put(self, server, *flags):
        done = warpfold("put", "--target", server.address, "--json", str(self.file), *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def reduce(self, server, *flags):
        done = warpfold("reduce", "--target", server.address, "--op", "sum,max,argmin", "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        return answer["results"], answer["element_count"]

    def test_kept_array_gives_the_bits_of_the_sent_one(self):
        with Server("--resident_bytes=16777216") as server:
            array = self.put(server, "--owner=tests", "--ttl=60")
            self.assertEqual(array["element_count"], len(self.values))
            token = array["token"]
            self.assertEqual(self.reduce(server, "--array", token), self.reduce(server, str(self.file)))
            part = self.folder / "part.npy"
            numpy.save(part, self.values[7:200_007])
            found = self.reduce(server, "--array", token, "--first=7", "--count=200000")
            self.assertEqual(found, self.reduce(server, str(part)))
            listed = json.loads(warpfold("arrays", "--target", server.address, "--json").stdout)["arrays"]
            self.assertEqual([a["owner"] for a in listed], ["tests"])
            self.assertNotIn("token", listed[0])
            self.assertEqual(warpfold("delete", "--target", server.address, token).returncode, 0)
            gone = warpfold("reduce", "--target", server.address, "--op=sum", "--array", token)
            self.assertEqual(gone.returncode, 1)
            self.assertIn("NOT_FOUND", gone.stderr)

    def test_kept_matrices_are_matrices(self):
        values = numpy.random.default_rng(2).integers(0, 2**32, (50, 2, 2), dtype="uint32")
        numpy.save(self.file, values)
        command = ("reduce", "--op", "matrix_product,max", "--json")
        with Server("--resident_bytes=16777216") as server:
            target = ("--target", server.address)
            token = self.put(server, "--matrix=2x2")["token"]
            sent = warpfold(*command, *target, "--matrix=2x2", str(self.file))
            kept = warpfold(*command, *target, "--array", token)
            self.assertEqual(sent.returncode, 0, sent.stderr)
            self.assertEqual((kept.returncode, kept.stdout), (0, sent.stdout), kept.stderr)
            numpy.save(self.file, values[:-1])
            sent = warpfold(*command, *target, "--matrix=2x2", str(self.file))
            kept = warpfold(*command, *target, "--array", token, "--count=49")
            self.assertEqual((kept.returncode, kept.stdout), (0, sent.stdout), kept.stderr)
            # An empty part at the end.
            none = warpfold("reduce", *target, "--op=sum", "--array", token, "--first=50")
            self.assertEqual(none.returncode, 0, none.stderr)

    def test_is_not_kept_where_its_token_cannot_be_told(self):
        with Server("--resident_bytes=16777216") as server, open("/dev/full", "wb") as full:
            done = warpfold("put", "--target", server.address, str(self.file), stdout=full)
            self.assertEqual(done.returncode, 2, done.stderr)
            listed = json.loads(warpfold("arrays", "--target", server.address, "--json").stdout)["arrays"]
            self.assertEqual(listed, [])

    def test_expires(self):
        with Server("--resident_bytes=16777216", "--admin_listen=127.0.0.1:0") as server:
            array = self.put(server, "--ttl=1e-10")  # rounded up, not to 0, which is the server's default
            self.assertEqual(array["expires_in_seconds"], 1)
            token = array["token"]
            # Not with a list of arrays, for which the server sweeps.
            wait_until(lambda: metric(server.ready_line, "warpfold_kept_array_bytes") == 0,
                       "the end of the array")
            self.assertEqual(warpfold("delete", "--target", server.address, token).returncode, 1)

    def test_refusals(self):
        with Server("--resident_bytes=1048576") as server:
            full = warpfold("put", "--target", server.address, str(self.file))
            self.assertEqual(full.returncode, 1)
            self.assertIn("RESOURCE_EXHAUSTED", full.stderr)
            self.assertIn("seven eighths of resident_bytes = 1048576", full.stderr)
            beyond = self.folder / "small.npy"
            numpy.save(beyond, self.values[:100])
            self.file = beyond
            token = self.put(server)["token"]
            for flags in (["--first=1", "--count=100"], ["--first=101"], ["--count=101"],
                          ["--first=2305843009213693954", "--count=1"]):
                bad = warpfold("reduce", "--target", server.address, "--op=sum", "--array", token, *flags)
                self.assertEqual(bad.returncode, 2, flags)
                self.assertIn("INVALID_ARGUMENT", bad.stderr)
            self.assertEqual(warpfold("delete", "--target", server.address, "xyz").returncode, 2)
        with Server() as server:
            none = warpfold("put", "--target", server.address, str(self.file))
            self.assertEqual(none.returncode, 1)
            self.assertIn("--resident_bytes", none.stderr)

    def test_memory_socket_of_the_load_tool(self):
        with Server(f"--memory_socket={self.folder}/memory") as server:
            done = warpfold("bench", "--target", server.address, "--source", "memory", "--memory_socket",
                            f"{self.folder}/memory", "--bytes", "4194304", "--memory_bytes", "16777216",
                            "--duration", "0.2", "--warm_up", "0", "--rounds", "1", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(json.loads(done.stdout)["set_up_ms"], 0)
        self.assertFalse((self.folder / "memory").exists())

    def test_bad_places_for_the_memory_socket(self):
        for path in ("relative", "/" + "x" * 120, f"{self.folder}/no/such/folder"):
            with self.assertRaisesRegex(RuntimeError, "exit 2.*memory_socket"):
                Server(f"--memory_socket={path}")


if __name__ == "__main__":
    unittest.main()
