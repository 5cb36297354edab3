# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays of every kind through both executables, over TCP and over a Unix socket."""

import json
import struct
import tempfile
import unittest

from harness import DEVICE, Server, TestCase, npy, pack, warpfold


class _Reduce:
    """The tests; subclasses say where the server listens."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(listen=cls.listen())

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            code = cls.server.stop()
        assert code == 0, f"warpfold-server exited with {code}"

    def call(self, *arguments, stdin=b""):
        return warpfold("reduce", "--target", self.server.target, *arguments, stdin=stdin)

    def answer(self, *arguments, stdin=b""):
        return self.reduce(self.server, *arguments, stdin=stdin)

    def ask(self, *arguments, stdin=b""):
        return self.values(self.server, *arguments, stdin=stdin)

    def test_text(self):
        done = self.call("--op", "sum,min,argmax,mean,all", "--dtype", "int32", "-",
                         stdin=pack("i", [3, -1, 4, 1, 5]))
        self.assertEqual(done.stdout, "sum 12\nmin -1\nargmax 5 index 4\nmean 2.4\nall true\n", done.stderr)

    def test_json(self):
        done = self.call("--op", "sum,argmin,any", "--json", "--dtype", "float64", "-",
                         stdin=pack("d", [0.5, -2.0, 0.0]))
        answer = json.loads(done.stdout)
        self.assertTrue(answer["device"].startswith(DEVICE.split(":")[0]) or answer["device"] == "cpu")
        self.assertEqual(answer["element_count"], 3)
        self.assertEqual(answer["results"], [{"op": "sum", "value": -1.5},
                                             {"op": "argmin", "value": -2.0, "index": 1},
                                             {"op": "any", "value": True}])
        self.assertEqual(list(answer), ["element_count", "device", "results"])

    def test_non_finite_values_are_strings(self):
        values = self.ask("--op", "min,max", "--dtype", "float32", "-",
                             stdin=pack("f", [float("inf"), float("-inf")]))
        self.assertEqual(values, ["-inf", "inf"])
        not_a_number = pack("f", [float("nan")])
        self.assertEqual(self.ask("--op", "max", "--dtype", "float32", "-", stdin=not_a_number), ["nan"])

    def test_npy_of_every_version_and_type(self):
        for version in (1, 2, 3):
            for descr, code in zip(("<i4", "<i8", "<u4", "<u8", "<f4", "<f8"), "iqIQfd"):
                path = self.file("a.npy", npy(descr, (2, 3), pack(code, range(6)), version=version))
                self.assertEqual(self.ask("--op", "sum,max", path), [15, 5], (version, descr))

    def test_raw_file_equals_npy_file(self):
        data = pack("q", ((i * 7919) % 100_003 - 50_000 for i in range(300_000)))
        raw = self.file("a.raw", data)
        array = self.file("a.npy", npy("<i8", (300_000,), data))
        operators = "sum,min,max,argmin,argmax,bit_and,bit_or,bit_xor,all,any,count_nonzero,mean"
        expected = self.answer("--op", operators, array)
        self.assertEqual(self.answer("--op", operators, "--dtype", "int64", raw), expected)
        self.assertEqual(self.answer("--op", operators, "--dtype", "int64", "-", stdin=data), expected)
        for streams in ("2", "4"):
            self.assertEqual(self.answer("--op", operators, "--streams", streams, array), expected)

    def test_iota(self):
        for streams in ("1", "3"):
            answer = self.answer("--op", "sum,argmax", "--iota", "10000000", "--streams", streams)
            self.assertEqual(answer["element_count"], 10_000_000)
            self.assertEqual(answer["results"], [{"op": "sum", "value": 49_999_995_000_000},
                                                 {"op": "argmax", "value": 9_999_999, "index": 9_999_999}])

    def test_random_is_what_help_says(self):
        mask = 2**64 - 1
        outputs = []
        for i in range(1000):
            z = (9 + (i + 1) * 0x9E3779B97F4A7C15) & mask
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            outputs.append(z ^ (z >> 31))
        random = ("--random", "1000", "--seed", "9")
        self.assertEqual(self.ask("--op", "max", "--dtype", "uint64", *random)[0], max(outputs))
        self.assertEqual(self.ask("--op", "min", "--dtype", "float64", *random)[0],
                         min(z >> 11 for z in outputs) / 2**53)
        self.assertEqual(self.ask("--op", "max", "--dtype", "uint32", *random)[0],
                         max(z & 0xFFFFFFFF for z in outputs))

    def test_matrices(self):
        data = pack("i", [1, 2, 3, 4, 0, 1, 1, 0])
        path = self.file("m.npy", npy("<i4", (2, 2, 2), data))
        self.assertEqual(self.ask("--op", "matrix_product", path), [[[2, 1], [4, 3]]])
        self.assertEqual(self.ask("--op", "sum", path), [12])
        self.assertEqual(self.ask("--op", "sum,max", "--matrix", "2x2", path),
                         [[[1, 3], [4, 4]], [[1, 2], [3, 4]]])
        modulo_3 = self.ask("--op", "matrix_product", "--matrix", "2x2", "--modulus", "3",
                            "--dtype", "int32", "-", stdin=data)
        self.assertEqual(modulo_3, [[[2, 1], [1, 0]]])
        text = self.call("--op", "matrix_product", path).stdout
        self.assertEqual(text, "matrix_product [[2, 1], [4, 3]]\n")

    def test_options(self):
        big = ("--op", "sum", "--dtype", "int32", "-")
        data = pack("i", [2**31 - 1, 1])
        self.assertEqual(self.ask(*big, stdin=data), [2**31])
        self.assertEqual(self.ask("--wrap", *big, stdin=data), [-(2**31)])
        holes = ("--op", "sum", "--dtype", "float64", "-")
        data = pack("d", [1.0, float("nan"), 2.0])
        self.assertEqual(self.ask(*holes, stdin=data), ["nan"])
        self.assertEqual(self.ask("--ignore-nan", *holes, stdin=data), [3.0])

    def test_empty_array(self):
        empty = self.file("e.npy", npy("<i4", (0,), b""))
        self.assertEqual(self.ask("--op", "sum,product,count_nonzero,all,any", empty),
                         [0, 1, 0, True, False])
        self.assertEqual(self.ask("--op", "sum", "--dtype", "int32", "-"), [0])

    def test_server_errors_exit_with_1_and_name_the_status(self):
        empty = self.file("e.npy", npy("<i4", (0,), b""))
        self.assert_exit(1, self.call("--op", "min", empty), "INVALID_ARGUMENT", "min")
        floats = ("--dtype", "float32", "--iota", "1")
        self.assert_exit(1, self.call("--op", "bit_and", *floats), "INVALID_ARGUMENT")
        overflow = pack("q", [2**63 - 1, 1])
        self.assert_exit(1, self.call("--op", "sum", "--dtype", "int64", "-", stdin=overflow), "OUT_OF_RANGE")
        self.assert_exit(1, self.call("--op", "sum,sum", "--iota", "5"), "INVALID_ARGUMENT")
        self.assert_exit(1, self.call("--op", "sum", "--matrix", "9x9", "--iota", "5"), "INVALID_ARGUMENT")

    def test_info_and_health(self):
        info = json.loads(warpfold("info", "--target", self.server.target, "--json").stdout)
        self.assertEqual(info["backend"], DEVICE.split(":")[0])
        self.assertIn("sum", [op["op"] for op in info["operators"]])
        self.assertGreater(info["limits"]["max_stream_bytes"], 0)
        self.assertIn("operator sum", warpfold("info", "--target", self.server.target).stdout)
        health = warpfold("health", "--target", self.server.target)
        self.assertEqual((health.returncode, health.stdout), (0, "SERVING\n"))

    def test_bench_prints_json_lines(self):
        done = warpfold("bench", "--target", self.server.target, "--bytes", "4000000", "--calls", "20",
                        "--repeat", "2", "--streams", "2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = {line["bench"]: line for line in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(lines["throughput"]["bytes"], 4_000_000)
        self.assertGreater(lines["throughput"]["gbps"], 0)
        self.assertGreater(lines["latency"]["p50_us"], 0)

    def test_float_bits_do_not_depend_on_streams(self):
        random = ("--op", "sum", "--dtype", "float64", "--random", "3000000")
        bits = {struct.pack("<d", self.ask(*random, "--streams", streams)[0]) for streams in ("1", "2", "4")}
        self.assertEqual(len(bits), 1)


class TcpTest(_Reduce, TestCase):
    @staticmethod
    def listen() -> str:
        return "127.0.0.1:0"


class UnixSocketTest(_Reduce, TestCase):
    @classmethod
    def listen(cls) -> str:
        folder = tempfile.TemporaryDirectory(prefix="warpfold_")
        cls.addClassCleanup(folder.cleanup)
        return f"unix:{folder.name}/socket"


if __name__ == "__main__":
    unittest.main()
