# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Segments through the command line and a server, compared with NumPy's axis."""

import json
import pathlib
import unittest

import numpy

from executables import Server, TestCase, warpfold

_RANDOM = numpy.random.default_rng(1)


class SegmentsTest(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--resident_bytes=16777216"))

    def run_reduce(self, *arguments: str, check: bool = True):
        done = warpfold("reduce", "--target", self.server.address, *arguments)
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def rows(self, *arguments: str) -> list[dict]:
        """The results of each segment, by operator."""
        lines = [json.loads(line) for line in self.run_reduce("--json", *arguments).stdout.splitlines()]
        self.assertEqual([line["segment"] for line in lines], list(range(len(lines))))
        return [{result["op"]: result for result in line["results"]} for line in lines]

    def test_rows_of_a_matrix(self):
        array = _RANDOM.integers(-1000, 1000, (300, 701), dtype=numpy.int16)
        path = self.save("rows.npy", array)
        for axis in ("1", "-1"):
            rows = self.rows("--op", "sum,argmax,variance,minmax", "--axis", axis, path)
            self.assertEqual([row["sum"]["value"] for row in rows], array.sum(axis=1).tolist())
            self.assertEqual([row["argmax"]["index"] for row in rows], array.argmax(axis=1).tolist())
            self.assertEqual([row["minmax"]["value"]["min"] for row in rows], array.min(axis=1).tolist())
            numpy.testing.assert_allclose([row["variance"]["value"] for row in rows], array.var(axis=1))
        lines = self.run_reduce("--op", "sum,argmax", "--axis", "1", path).stdout.splitlines()
        row = array[7]
        self.assertEqual(lines[7], f"7 sum {row.sum()} argmax {row.max()} index {row.argmax()}")

    def test_the_bits_of_a_call_for_each(self):
        array = _RANDOM.lognormal(0, 20, (20, 9000)).astype(numpy.float32)
        operators = "sum,exact_sum,logsumexp,l2_norm"
        rows = self.rows("--op", operators, "--segment_length", "9000", self.save("floats.npy", array))
        for row, segment in zip(rows, array, strict=True):
            alone = self.run_reduce("--json", "--op", operators, self.save("row.npy", segment))
            self.assertEqual(list(row.values()), json.loads(alone.stdout)["results"])

    def test_lengths(self):
        lengths = _RANDOM.integers(0, 50, 2000)
        lengths[[3, 500]] = 300_000, 0
        array = _RANDOM.integers(0, 100, lengths.sum(), dtype=numpy.uint8)
        ends = numpy.cumsum(lengths)
        expected = [int(array[end - length:end].sum()) for end, length in zip(ends, lengths, strict=True)]
        for dtype in (numpy.int64, numpy.uint64):
            path = self.save("lengths.npy", lengths.astype(dtype))
            rows = self.rows("--op", "sum", "--segment_lengths", path, self.save("ragged.npy", array))
            self.assertEqual([row["sum"]["value"] for row in rows], expected)

    def test_a_kept_array(self):
        array = _RANDOM.integers(0, 100, 10_000, dtype=numpy.int64)
        put = warpfold("put", "--target", self.server.address, "--json", self.save("kept.npy", array))
        token = json.loads(put.stdout)["token"]
        rows = self.rows("--op", "sum", "--array", token, "--first", "100", "--count", "900",
                         "--segment_length", "30")
        self.assertEqual([row["sum"]["value"] for row in rows],
                         array[100:1000].reshape(30, 30).sum(axis=1).tolist())

    def test_progress_ends_with_what_was_done(self):
        array, lengths = self.save("a.npy", numpy.arange(10)), self.save("lengths.npy", numpy.array([4, 6]))
        put = warpfold("put", "--target", self.server.address, "--json", array)
        kept = ("--array", json.loads(put.stdout)["token"])
        for arguments in ((array,), ("--segment_length", "5", array), ("--axis", "0", array),
                          ("--segment_lengths", lengths, array), ("--segment_length", "5", "--iota", "10"),
                          kept, (*kept, "--segment_length", "5")):
            with self.subTest(arguments):
                done = self.run_reduce("--op", "sum", "--progress", *arguments)
                self.assertRegex(done.stderr, r"^10 elements, 0.08 kB, in \S+ s \(\S+ GB/s\) on .+\n$")

    def test_matrices_have_no_segments(self):
        path = self.save("m.npy", numpy.ones((5, 3, 2)))
        put = warpfold("put", "--target", self.server.address, "--json", "--matrix", "3x2", path)
        for arguments in (("--axis", "2", "--matrix", "3x2", path), ("--segment_length", "2", "--array",
                                                                     json.loads(put.stdout)["token"])):
            done = self.run_reduce("--op", "sum", *arguments, check=False)
            self.assert_exit(2, done, "segments are of scalars, not of 3x2 matrices")

    def test_segments_without_results(self):
        lengths = self.save("lengths.npy", numpy.array([1, 0, 1]))
        array = self.save("array.npy", numpy.array([2**62, 5], dtype=numpy.int64))
        done = self.run_reduce("--op", "max,sum", "--segment_lengths", lengths, array, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines()[1], "1 max EMPTY_ARRAY sum 0")
        self.assertIn("INVALID_ARGUMENT (EMPTY_ARRAY): 1 segment result has no value", done.stderr)
        array = self.save("array.npy", numpy.array([2**62, 2**62], dtype=numpy.int64))
        lengths = self.save("lengths.npy", numpy.array([2, 0]))
        done = self.run_reduce("--op", "max,sum", "--segment_lengths", lengths, array, check=False)
        self.assertIn("OUT_OF_RANGE (OVERFLOW): 2 segment results have no value", done.stderr)

    def test_rows_of_no_elements(self):
        """As in NumPy: the operator's identity for each segment, or its error for no elements."""
        for shape in ((4, 0), (2, 3, 0), (0,), (0, 0), (0, 3)):
            with self.subTest(shape):
                array = numpy.zeros(shape, dtype=numpy.int32)
                path = self.save("empty.npy", array)
                rows = self.rows("--op", "product", "--axis", "-1", path)
                products = [row["product"]["value"] for row in rows]
                self.assertEqual(products, array.prod(axis=-1).reshape(-1).tolist())
                done = self.run_reduce("--op", "max,sum", "--axis", "-1", path, check=False)
                self.assertEqual(done.stdout.splitlines(),
                                 [f"{row} max EMPTY_ARRAY sum 0" for row in range(len(products))])
                self.assertEqual(done.returncode, 1 if products else 0)

    def test_bad_usage(self):
        array = self.save("array.npy", numpy.zeros((3, 4), dtype=numpy.int32))
        lengths = self.save("lengths.npy", numpy.array([1.0]))
        raw = self.save("raw.npy", numpy.zeros(4, dtype=numpy.int32)).replace("raw.npy", "raw")
        pathlib.Path(raw).write_bytes(bytes(16))
        for arguments in (["--axis", "0", array], ["--axis", "2", array], ["--segment_length", "0", array],
                          ["--axis", "1", "--segment_length", "4", array],
                          ["--axis", "0", "--dtype", "int32", raw], ["--segment_lengths", lengths, array],
                          ["--segment_lengths", "/nowhere.npy", array], ["--segment_lengths", raw, array],
                          ["--dtype", "int8", "--segment_length", "4", "-"],
                          ["--streams", "2", "--segment_length", "4", array]):
            done = self.run_reduce("--op", "sum", *arguments, check=False)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
        many = str(self.folder / "many.npy")
        with open(many, "wb") as file:
            numpy.lib.format.write_array_header_1_0(
                file, {"descr": "<i4", "fortran_order": False, "shape": (2**40, 0)})
        done = self.run_reduce("--op", "sum", "--axis", "1", many, check=False)
        self.assert_exit(2, done, "many.npy", "more than 134217728 rows of no elements")
        done = self.run_reduce("--op", "sum", "--segment_length", "5", array, check=False)
        self.assert_exit(2, done, "INVALID_ARGUMENT (BAD_HEADER): ")

    def test_millions_in_bounded_memory(self):
        """Ten times the segments take no more memory, although their results alone have 36 MB more."""
        peaks = []
        for segments in (400_000, 4_000_000):
            done = self.run_reduce("--op", "max", "--dtype", "uint8", "--random", str(segments),
                                   "--segment_length", "1")
            self.assertEqual(done.stdout.count("\n"), segments)
            status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
            peaks.append(next(int(line.split()[1]) for line in status.splitlines()
                              if line.startswith("VmHWM")))
        self.assertLess(peaks[1] - peaks[0], 16 << 10, peaks)


if __name__ == "__main__":
    unittest.main()
