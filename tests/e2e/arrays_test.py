# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Large arrays through the command line and a server: NumPy's values, and the same bits in every way."""

import struct
import unittest

import numpy

from executables import DEVICE, Server, TestCase, reduce, value, warpfold

_GIBIBYTE = 1 << 30


class ArraysTest(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--max_stream_bytes=4294967296"))

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
            done = warpfold("reduce", "--target", server.address, "--op", ",".join(operators),
                            "--dtype", "float64", "-", stdin=array.tobytes())
            ways.add(tuple(_bits(line.split()[1]) for line in done.stdout.splitlines()))
        self.assertEqual(len(ways), 1)
        total = struct.unpack("<d", next(iter(ways))[0])[0]
        self.assertTrue(numpy.isclose(total, array.sum(), rtol=1e-12))

    def test_stripes_whose_states_are_larger_than_a_message(self):
        # 64 stripes of 511 leaves have 576 subtrees, each with a state of 8 x 8 numbers for every operator.
        operators = "sum,product,min,max,bit_and,bit_or,bit_xor,all,any,count_nonzero,mean,matrix_product"
        flags = ("--op", operators, "--wrap", "--matrix", "8x8", "--dtype", "uint64",
                 "--random", str(64 * 511 * 8))
        whole = reduce(self.server.address, *flags)
        self.assertEqual(reduce(self.server.address, *flags, "--streams", "64"), whole)

    def test_ordered_product_of_a_million_matrices(self):
        random = numpy.random.default_rng(3).integers(0, 2**64, (2, 1_000_000, 4, 4), dtype=numpy.uint64)
        one = numpy.eye(4, dtype=numpy.uint64)
        # The matrices have determinant 1, so that their products modulo powers of two do not decay to zero.
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


def _bits(number) -> bytes:
    return struct.pack("<d", float(number))


def _product(array: numpy.ndarray, modulus: int | None) -> numpy.ndarray:
    """The product in order, by a plain loop: the sum of four products of residues below 2^31 fits in 64
    bits."""
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
