# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Every kind of input, result and rejection through both executables, over TCP and over a Unix socket."""

import json
import tempfile
import unittest

import numpy

from executables import DEVICE, Server, TestCase, npy_bytes, reduce, value, values, warpfold

_MAX_STREAM_BYTES = 100_000_000


class _Reduce:
    """The tests; subclasses say where the server listens."""

    @classmethod
    def setUpClass(cls):
        flag = f"--max_stream_bytes={_MAX_STREAM_BYTES}"
        cls.server = cls.enterClassContext(Server(flag, listen=cls.listen()))
        cls.address = cls.server.address

    def call(self, *arguments, stdin=b""):
        return warpfold("reduce", "--target", self.address, *arguments, stdin=stdin)

    def of_stdin(self, dtype, elements, operators, *arguments):
        """The operators' values over elements that come through standard input."""
        data = numpy.array(elements, dtype).tobytes()
        return values(self.address, operators, "--dtype", dtype, *arguments, "-", stdin=data)

    def test_text(self):
        done = self.call("--op", "sum,min,argmax,mean,all", "--dtype", "int32", "-",
                         stdin=numpy.array([3, -1, 4, 1, 5], "<i4").tobytes())
        self.assertEqual(done.stdout, "sum 12\nmin -1\nargmax 5 index 4\nmean 2.4\nall true\n", done.stderr)

    def test_json(self):
        done = self.call("--op", "sum,argmin,any", "--json", "--dtype", "float64", "-",
                         stdin=numpy.array([0.5, -2.0, 0.0]).tobytes())
        answer = json.loads(done.stdout)
        self.assertEqual(answer["device"], self.server.ready_line.split(" device=")[1])
        self.assertEqual(answer["element_count"], 3)
        self.assertEqual(answer["results"], [{"op": "sum", "value": -1.5},
                                             {"op": "argmin", "value": -2.0, "index": 1},
                                             {"op": "any", "value": True}])
        self.assertEqual(list(answer), ["element_count", "device", "results"])

    def test_non_finite_values_are_strings(self):
        self.assertEqual(self.of_stdin("float32", [numpy.inf, -numpy.inf], "min,max"), ["-inf", "inf"])
        self.assertEqual(self.of_stdin("float32", [numpy.nan], "max"), ["nan"])

    def test_npy_of_every_version_and_type(self):
        for version in ((1, 0), (2, 0), (3, 0)):
            for dtype in ("<i4", "<i8", "<u4", "<u8", "<f4", "<f8"):
                path = self.file("a.npy", npy_bytes(numpy.arange(6, dtype=dtype).reshape(2, 3), version))
                self.assertEqual(values(self.address, "sum,max", path), [15, 5], (version, dtype))

    def test_npy_is_known_by_its_content(self):
        array = numpy.arange(600_000, dtype="<i4").reshape(-1, 2, 3)
        data = npy_bytes(array)
        disguised = self.file("array.bin", data)
        for flags in ((), ("--dtype", "int32")):
            self.assertEqual(value(self.address, "sum", *flags, disguised), int(array.sum()))
        self.assertEqual(value(self.address, "sum", "-", stdin=data), int(array.sum()))
        self.assertEqual(value(self.address, "max", "--matrix", "2x3", "-", stdin=data), array[-1].tolist())

    def test_raw_file_equals_npy_file(self):
        array = numpy.arange(300_000, dtype="<i8") * 7919 % 100_003 - 50_000
        path, raw = self.save("a.npy", array), self.file("a.raw", array.tobytes())
        operators = "sum,min,max,argmin,argmax,bit_and,bit_or,bit_xor,all,any,count_nonzero,mean"
        expected = reduce(self.address, "--op", operators, path)
        self.assertEqual(expected["results"]["sum"]["value"], int(array.sum()))
        for streams in ("1", "2", "4"):
            for source in ((path,), ("--dtype", "int64", raw)):
                answer = reduce(self.address, "--op", operators, "--streams", streams, *source)
                self.assertEqual(answer, expected)
        answer = reduce(self.address, "--op", operators, "--dtype", "int64", "-", stdin=array.tobytes())
        self.assertEqual(answer, expected)

    def test_iota(self):
        for streams in ("1", "3"):
            answer = reduce(self.address, "--op", "sum,argmax", "--iota", "10000000", "--streams", streams)
            self.assertEqual(answer["element_count"], 10_000_000)
            self.assertEqual(answer["results"]["sum"]["value"], 49_999_995_000_000)
            self.assertEqual(answer["results"]["argmax"],
                             {"op": "argmax", "value": 9_999_999, "index": 9_999_999})

    def test_random_is_what_help_says(self):
        z = numpy.uint64(9) + numpy.arange(1, 3_000_001, dtype="u8") * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z ^= z >> numpy.uint64(31)
        floats = (z >> numpy.uint64(11)) / 2**53
        random = ("--random", "3000000", "--seed", "9")
        sums = set()
        for streams in ("1", "2", "4"):
            way = (*random, "--streams", streams)
            results = reduce(self.address, "--op", "min,argmax", "--dtype", "uint64", *way)["results"]
            self.assertEqual(results["min"]["value"], int(z.min()))
            self.assertEqual(results["argmax"],
                             {"op": "argmax", "value": int(z.max()), "index": int(z.argmax())})
            self.assertEqual(value(self.address, "bit_xor", "--dtype", "uint32", *way),
                             int(numpy.bitwise_xor.reduce(z.astype("u4"))))
            smallest, total = values(self.address, "min,sum", "--dtype", "float64", *way)
            self.assertEqual(smallest, floats.min())
            sums.add(total)
        self.assertEqual(len(sums), 1)  # JSON's doubles read back: the same bits
        self.assertTrue(numpy.isclose(sums.pop(), floats.sum(), rtol=1e-12))

    def test_matrices(self):
        array = numpy.array([1, 2, 3, 4, 0, 1, 1, 0], "<i4").reshape(2, 2, 2)
        path = self.save("m.npy", array)
        self.assertEqual(value(self.address, "matrix_product", path), [[2, 1], [4, 3]])
        self.assertEqual(value(self.address, "sum", path), 12)
        self.assertEqual(values(self.address, "sum,max", "--matrix", "2x2", path),
                         [[[1, 3], [4, 4]], [[1, 2], [3, 4]]])
        modulo_3 = self.of_stdin("int32", array, "matrix_product", "--matrix", "2x2", "--modulus", "3")
        self.assertEqual(modulo_3, [[[2, 1], [1, 0]]])
        text = self.call("--op", "matrix_product", path).stdout
        self.assertEqual(text, "matrix_product [[2, 1], [4, 3]]\n")

    def test_options(self):
        self.assertEqual(self.of_stdin("int32", [2**31 - 1, 1], "sum"), [2**31])
        self.assertEqual(self.of_stdin("int32", [2**31 - 1, 1], "sum", "--wrap"), [-(2**31)])
        self.assertEqual(self.of_stdin("float64", [1, numpy.nan, 2], "sum"), ["nan"])
        self.assertEqual(self.of_stdin("float64", [1, numpy.nan, 2], "sum", "--ignore-nan"), [3.0])

    def test_fields_places_and_ddof(self):
        path = self.save("a.npy", numpy.array([1, -2, 3, 4, -5, 1], "<i4"))
        operators = "minmax,describe,max_subarray_sum,variance,stddev,last"
        text = self.call("--op", operators, "--ddof", "1", path).stdout
        variance = float(numpy.var([1, -2, 3, 4, -5, 1], ddof=1))
        described = f"count 6 min -5 max 4 sum 2 mean 0.3333333333333333 variance {variance}"
        self.assertEqual(text.splitlines(), [
            "minmax min -5 max 4", f"describe {described}", "max_subarray_sum 7 index 2 end_index 4",
            f"variance {variance}", f"stddev {variance**0.5}", "last 1"])
        done = self.call("--op", operators, "--json", path)  # ddof 0
        variance = float(numpy.var([1, -2, 3, 4, -5, 1]))
        self.assertEqual(json.loads(done.stdout)["results"], [
            {"op": "minmax", "value": {"min": -5, "max": 4}},
            {"op": "describe", "value": {"count": 6, "min": -5, "max": 4, "sum": 2, "mean": 1 / 3,
                                         "variance": variance}},
            {"op": "max_subarray_sum", "value": 7, "index": 2, "end_index": 4},
            {"op": "variance", "value": variance}, {"op": "stddev", "value": variance**0.5},
            {"op": "last", "value": 1}])
        self.assertEqual(self.of_stdin("float64", [1.0], "variance,describe", "--ddof", "1"), [
            "nan", {"count": 1, "min": 1.0, "max": 1.0, "sum": 1.0, "mean": 1.0, "variance": "nan"}])
        self.assertEqual(self.of_stdin("float64", [1.0, 2.0], "variance", "--ddof", "1.5"), [1.0])
        self.assertEqual(self.of_stdin("float64", [1.0, 2.0], "variance", "--ddof", "2"), ["nan"])
        for ddof in ("-1", "inf"):
            refused = self.call("--op", "variance", f"--ddof={ddof}", path)
            self.assert_exit(1, refused, "INVALID_ARGUMENT (BAD_HEADER): ddof")
        refused = self.call("--op", "sum", "--ddof", "1", path)
        self.assert_exit(1, refused, "INVALID_ARGUMENT (BAD_HEADER): ddof")

    def test_narrow_types(self):
        operators = "sum,min,max,first,l1_norm,describe"
        for dtype, elements in (("int8", [-128, 127, 3]), ("uint16", [65535, 65535, 0]),
                                ("float16", [0.5, -65504.0, 1.0]), ("bool", [True, False, True])):
            array = numpy.array(elements, dtype)
            path, raw = self.save("a.npy", array), self.file("a.raw", array.tobytes())
            got = reduce(self.address, "--op", operators, path)
            self.assertEqual(reduce(self.address, "--op", operators, "--dtype", dtype, raw), got)
            numbers = [results["value"] for results in got["results"].values()]
            self.assertEqual(numbers[:5], [sum(elements), min(elements), max(elements), elements[0],
                                           float(sum(map(abs, elements)))])
            self.assertEqual((numbers[5]["count"], numbers[5]["max"]), (3, max(elements)))
        # NumPy has no bfloat16: its values are the upper halves of float32.
        upper = numpy.array([1.5, -3.0, 0.25], "<f4").view("<u4") >> 16
        raw = self.file("b.raw", upper.astype("<u2").tobytes())
        self.assertEqual(values(self.address, "sum,min,argmax,max_abs", "--dtype", "bfloat16", raw),
                         [-1.25, -3.0, 1.5, 3.0])

    def test_affine_maps(self):
        path = self.save("a.npy", numpy.array([[[2, 3]], [[5, 7]]], "<i8"))
        for flags in ((), ("--matrix", "1x2")):
            text = self.call("--op", "affine_compose", *flags, path).stdout
            self.assertEqual(text, "affine_compose [[10, 22]]\n")  # 5 (2 x + 3) + 7
        for count in (2, 5000):
            rows = self.save("rows.npy", numpy.array([[2, 3], [5, 7]] + [[1, 0]] * (count - 2), "<i8"))
            text = self.call("--op", "affine_compose", "--matrix", "1x2", rows).stdout
            self.assertEqual(text, "affine_compose [[10, 22]]\n")
            self.assert_exit(2, self.call("--op", "affine_compose", rows), "say --matrix 1x2")

    def test_empty_array(self):
        empty = self.save("e.npy", numpy.array([], "<i4"))
        expected = [0, 1, 0, True, False]
        operators = "sum,product,count_nonzero,all,any"
        self.assertEqual(values(self.address, operators, empty), expected)
        self.assertEqual(self.of_stdin("int32", [], operators), expected)

    def test_errors_of_the_server_exit_1_with_the_status_name(self):
        empty = self.save("e.npy", numpy.array([], "<i4"))
        overflow = self.save("o.npy", numpy.array([2**63 - 1, 1], "<i8"))
        elements = _MAX_STREAM_BYTES // 8
        for status, *arguments in (
                ("INVALID_ARGUMENT (EMPTY_ARRAY): min", "--op", "min", empty),
                ("INVALID_ARGUMENT (EMPTY_ARRAY): min", "--op", "min", "--dtype", "int32", "-"),
                ("INVALID_ARGUMENT", "--op", "bit_and", "--dtype", "float32", "--iota", "1"),
                ("INVALID_ARGUMENT", "--op", "sum,sum", "--iota", "5"),
                ("INVALID_ARGUMENT", "--op", "sum", "--matrix", "33x33", "--iota", "5"),
                ("OUT_OF_RANGE", "--op", "sum", overflow),
                ("OUT_OF_RANGE", "--op", "product", "--dtype", "int32", "--random", "100"),
                ("OUT_OF_RANGE", "--op", "product", "--dtype", "int32", "--random", "1000000"),
                ("RESOURCE_EXHAUSTED", "--op", "sum", "--streams", "1", "--iota", str(elements + 1))):
            with self.subTest(arguments):
                self.assert_exit(1, self.call(*arguments), status)
        # The server goes on, and its limit itself is allowed.
        self.assertEqual(value(self.address, "max", "--iota", str(elements)), elements - 1)

    def test_operators_without_a_value(self):
        overflow = self.save("o.npy", numpy.array([2**63 - 1, 1], "<i8"))
        message = ("sum: the exact value does not fit 64 bits; overflow_policy WRAP would answer it modulo "
                   "2^bits")
        for operators, text, results in (
                ("max,sum", f"max {2**63 - 1}\n", [{"op": "max", "value": 2**63 - 1}, {"op": "sum", "error": {
                    "code": "OUT_OF_RANGE", "reason": "OVERFLOW", "message": message}}]),
                ("sum", "", None)):
            error = f"warpfold: OUT_OF_RANGE (OVERFLOW): {message}\n"
            done = self.call("--op", operators, overflow)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, text, error))
            done = self.call("--op", operators, "--json", overflow)
            self.assertEqual((done.returncode, done.stderr), (1, error))
            self.assertEqual(json.loads(done.stdout)["results"] if done.stdout else None, results)

    def test_an_overflow_recommends_nothing_that_would_be_refused(self):
        overflow = self.save("o.npy", numpy.array([2**63 - 1, 1], "<i8"))
        done = self.call("--op", "max_subarray_sum", overflow)
        self.assertEqual((done.returncode, done.stderr), (
            1, "warpfold: OUT_OF_RANGE (OVERFLOW): max_subarray_sum: the exact value does not fit 64 bits\n"))
        self.assert_exit(1, self.call("--op", "max_subarray_sum", "--wrap", overflow), "INVALID_ARGUMENT",
                         "sums modulo 2^bits have no order")

    def test_info_and_health(self):
        info = json.loads(warpfold("info", "--target", self.address, "--json").stdout)
        self.assertEqual(info["backend"], DEVICE.split(":")[0])
        self.assertIn("sum", [op["op"] for op in info["operators"]])
        self.assertEqual(info["limits"]["max_stream_bytes"], _MAX_STREAM_BYTES)
        self.assertIn("operator sum", warpfold("info", "--target", self.address).stdout)
        health = warpfold("health", "--target", self.address)
        self.assertEqual((health.returncode, health.stdout), (0, "SERVING\n"))


class TcpTest(_Reduce, TestCase):
    @staticmethod
    def listen() -> str:
        return "127.0.0.1:0"


class UnixSocketTest(_Reduce, TestCase):
    @classmethod
    def listen(cls) -> str:
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="warpfold_e2e_"))
        return f"unix:{folder}/socket"


if __name__ == "__main__":
    unittest.main()
