# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The textbook's algorithms by name: NumPy's values if there is a GPU, a rejection if there is none."""

import json
import unittest

import numpy

from executables import DEVICE, Server, TestCase, reduce, value, warpfold

# Three ways to end a grid, a single block, and two steps of the ladder.
_ANY_ORDER = ("single_block", "two_launch", "last_block", "sequential_addressing", "warp_first",
              "cooperative_grid")
_ORDERED = ("single_block_ordered", "last_block_ordered", "warp_shuffle", "interleaved_modulo")


class AlgorithmsTest(TestCase):
    @classmethod
    def setUpClass(cls):
        # Several slots for each array, the last of them not full.
        cls.server = cls.enterClassContext(Server("--slot_bytes=1048576"))
        cls.address = cls.server.address

    def algorithms(self) -> list:
        return json.loads(warpfold("info", "--target", self.address, "--json").stdout)["algorithms"]

    def call(self, *arguments):
        return warpfold("reduce", "--target", self.address, *arguments)


class OnAnyDeviceTest(AlgorithmsTest):
    def test_one_that_does_not_keep_order_refuses_ordered_operators(self):
        matrices = self.save("matrices.npy", numpy.ones((5, 2, 2), dtype=numpy.int32))
        for algorithm in _ANY_ORDER:
            done = self.call("--algorithm", algorithm, "--op", "matrix_product", matrices)
            self.assert_exit(1, done, "INVALID_ARGUMENT (UNSUPPORTED_ALGORITHM): ",
                             f"algorithm {algorithm} does not serve matrix_product: it does not keep")

    def test_operators_that_teach_nothing_more_are_refused_with_those_that_do(self):
        for algorithm in (*_ANY_ORDER, *_ORDERED):
            done = self.call("--algorithm", algorithm, "--op", "variance", "--iota", "10")
            self.assert_exit(1, done, "INVALID_ARGUMENT (UNSUPPORTED_ALGORITHM): ",
                             f"algorithm {algorithm} does not serve variance",
                             "the textbook serves sum, min and max")


@unittest.skipIf(DEVICE == "cpu", "needs a GPU")
class OnTheGpuTest(AlgorithmsTest):
    def test_the_device_has_them(self):
        self.assertLessEqual({"auto", *_ANY_ORDER, *_ORDERED}, set(self.algorithms()))

    def test_exact_operators_equal_numpy(self):
        array = numpy.random.default_rng(1).integers(-2**31, 2**31, 1_000_003, dtype=numpy.int32)
        path = self.save("array.npy", array)
        expected = {"sum": int(array.sum(dtype=numpy.int64)), "min": int(array.min()),
                    "max": int(array.max())}
        for algorithm in (*_ANY_ORDER, *_ORDERED):
            with self.subTest(algorithm):
                answer = reduce(self.address, "--algorithm", algorithm, "--op", ",".join(expected), path)
                results = answer["results"]
                self.assertEqual({op: result["value"] for op, result in results.items()}, expected)
                self.assertEqual(answer["element_count"], array.size)

    def test_ordered_operators_equal_numpy(self):
        array = numpy.random.default_rng(2).integers(-2**31, 2**31, (100_001, 2, 2), dtype=numpy.int32)
        array |= numpy.eye(2, dtype=numpy.int32)  # odd diagonals: so that products do not soon vanish
        array[:, 0, 1] &= ~numpy.int32(1)  # and a triangle of even numbers: odd determinants
        product = numpy.eye(2, dtype=numpy.int32)
        for matrix in array:
            product = product @ matrix
        matrices = self.save("matrices.npy", array)
        for algorithm in _ORDERED:
            with self.subTest(algorithm):
                way = ("--algorithm", algorithm)
                self.assertEqual(value(self.address, "matrix_product", *way, matrices), product.tolist())


@unittest.skipUnless(DEVICE == "cpu", "a GPU has them")
class OnTheCpuTest(AlgorithmsTest):
    def test_they_are_refused_by_name(self):
        self.assertEqual(self.algorithms(), ["auto"])
        array = self.save("array.npy", numpy.arange(10, dtype=numpy.int32))
        for algorithm in (*_ANY_ORDER, *_ORDERED):
            done = self.call("--algorithm", algorithm, "--op", "sum", array)
            self.assert_exit(1, done, f"UNIMPLEMENTED (UNSUPPORTED_ALGORITHM): this device has no algorithm "
                             f"{algorithm}")
        self.assertEqual(value(self.address, "sum", "--algorithm", "auto", array), 45)


if __name__ == "__main__":
    unittest.main()
