# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Whole arrays through the command line and a server: NumPy's values, and the same bits on every way."""

import pathlib
import struct
import tempfile
import unittest

import numpy

from executables import DEVICE, Server, reduce, value, warpfold

# Daily mean ozone at Roosevelt Island, New York, in May 1973, ppb; NaN where the record has a gap. From J. M.
# Chambers et al., Graphical Methods for Data Analysis (1983), table A1. Its mean is known as 23.61538.
_NAN = float("nan")
_OZONE = [41, 36, 12, 18, _NAN, 28, 23, 19, 8, _NAN, 7, 16, 11, 14, 18, 14, 34, 6, 30, 11, 1, 11, 4, 32,
          _NAN, _NAN, _NAN, 23, 45, 115, 37]
_GIBIBYTE = 1 << 30


class ArraysTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory(prefix="warpfold_arrays_")
        cls.folder = pathlib.Path(cls._folder.name)
        cls.server = Server("--max_stream_bytes=4294967296")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls._folder.cleanup()

    def save(self, name: str, array: numpy.ndarray) -> str:
        path = self.folder / name
        numpy.save(path, array)
        return str(path)

    def test_gibibyte_of_int32_equals_numpy(self):
        array = numpy.random.default_rng(1).integers(-2**31, 2**31, _GIBIBYTE // 4, dtype=numpy.int32)
        path = self.save("large.npy", array)
        answer = reduce(self.server.address, "--op", "sum,min,max,argmin,count_nonzero,bit_xor", path)
        self.assertEqual(answer["element_count"], array.size)
        results = answer["results"]
        self.assertEqual(results["sum"]["value"], int(array.sum(dtype=numpy.int64)))
        self.assertEqual(results["min"]["value"], int(array.min()))
        self.assertEqual(results["max"]["value"], int(array.max()))
        self.assertEqual(results["argmin"]["index"], int(array.argmin()))
        self.assertEqual(results["count_nonzero"]["value"], int(numpy.count_nonzero(array)))
        self.assertEqual(results["bit_xor"]["value"], int(numpy.bitwise_xor.reduce(array)))
        pathlib.Path(path).unlink()

    def test_float64_has_the_same_bits_whatever_the_way(self):
        array = numpy.random.default_rng(2).lognormal(0, 20, 3_000_001)
        path = self.save("float64.npy", array)
        operators = ("sum", "product", "mean")
        ways = set()
        for device, *flags in (("cpu", "--cpu_threads=1"), ("cpu", "--cpu_threads=2"),
                               (DEVICE, "--slot_bytes=65536"), (DEVICE, "--slots=2")):
            with Server(*flags, device=device) as server:
                for streams in (1, 2, 4):
                    answer = reduce(server.address, "--op", ",".join(operators),
                                    "--streams", str(streams), path)
                    ways.add(tuple(_bits(answer["results"][op]["value"]) for op in operators))
        with Server(device="cpu") as server:
            with open(path, "rb") as file:
                raw = file.read()[128:]
            done = warpfold("reduce", "--target", server.address, "--op", ",".join(operators),
                            "--dtype", "float64", "-", stdin=raw)
            ways.add(tuple(_bits(line.split()[1]) for line in done.stdout.decode().splitlines()))
        self.assertEqual(len(ways), 1)
        total = struct.unpack("<d", next(iter(ways))[0])[0]
        self.assertTrue(numpy.isclose(total, array.sum(), rtol=1e-12))

    def test_missing_values_as_nan(self):
        path = self.save("ozone.npy", numpy.array(_OZONE))
        self.assertEqual(value(self.server.address, "mean", path), "nan")
        results = reduce(self.server.address, "--op", "mean,min,max,argmin,argmax,sum", "--ignore-nan",
                         path)["results"]
        self.assertEqual(results["mean"]["value"], numpy.nanmean(_OZONE))
        self.assertAlmostEqual(results["mean"]["value"], 23.61538, places=5)
        self.assertEqual((results["min"]["value"], results["max"]["value"]), (1, 115))
        self.assertEqual(results["argmin"]["index"], numpy.nanargmin(_OZONE))
        self.assertEqual(results["argmax"]["index"], numpy.nanargmax(_OZONE))
        self.assertEqual(results["sum"]["value"], 614)

    def test_ordered_product_of_a_million_matrices(self):
        random = numpy.random.default_rng(3).integers(0, 2**64, (2, 1_000_000, 4, 4), dtype=numpy.uint64)
        one = numpy.eye(4, dtype=numpy.uint64)
        # Of determinant 1, so that the products modulo powers of two do not decay to zero.
        unimodular = (numpy.tril(random[0], -1) + one) @ (numpy.triu(random[1], 1) + one)
        prime = 2**31 - 1
        for dtype, modulus in (("uint32", None), ("uint64", None), ("uint32", prime)):
            array = unimodular.astype(dtype)
            flags = ["--modulus", str(modulus)] if modulus else []
            got = value(self.server.address, "matrix_product", *flags, self.save("matrices.npy", array))
            self.assertEqual(got, _product(array, modulus).tolist(), (dtype, modulus))
            array[[500_000, 500_001]] = array[[500_001, 500_000]]
            swapped = self.save("swapped.npy", array)
            self.assertNotEqual(value(self.server.address, "matrix_product", *flags, swapped), got)

    def test_refused_files_name_the_reason(self):
        small = numpy.arange(12, dtype=numpy.int32).reshape(3, 4)
        good = pathlib.Path(self.save("good.npy", small)).read_bytes()
        files = {"big-endian": (self.save("big.npy", small.astype(">i4")), "endian"),
                 "Fortran order": (self.save("fortran.npy", numpy.asfortranarray(small)), "ortran"),
                 "complex": (self.save("complex.npy", small.astype(numpy.complex64)), "c8")}
        truncated = self.folder / "truncated.npy"
        truncated.write_bytes(good[:-1])
        files["truncated"] = (str(truncated), "runcated")
        files["missing"] = (str(self.folder / "missing.npy"), "o such file")
        for name, (path, reason) in files.items():
            done = warpfold("reduce", "--target", self.server.address, "--op", "sum", path)
            self.assertEqual(done.returncode, 2, name)
            self.assertIn(reason, done.stderr.decode(), name)


def _bits(number) -> bytes:
    return struct.pack("<d", float(number))


def _product(array: numpy.ndarray, modulus: int | None) -> numpy.ndarray:
    """The product in order, by a plain loop: of four products of residues below 2^31 the sum fits 64 bits."""
    product = numpy.eye(4, dtype=numpy.uint64)
    if modulus is None:
        for matrix in array.astype(numpy.uint64):
            product = product @ matrix
    else:
        for matrix in array.astype(numpy.uint64) % numpy.uint64(modulus):
            product = product @ matrix % numpy.uint64(modulus)
    return product.astype(array.dtype)


if __name__ == "__main__":
    unittest.main()
