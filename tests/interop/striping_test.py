# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""One array in stripes over two servers, merged by a third call: the bits are those of one pass."""

import unittest

import numpy

import service
from service import Failure, pb


def leaf_elements(element_bytes: int) -> int:
    """As the comment at ReduceHeader.first_element says."""
    return max(1, 1 << ((4096 // element_bytes).bit_length() - 1))


class StripingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.servers = [service.Server("--cpu_threads=1"), service.Server("--cpu_threads=2")]

    @classmethod
    def tearDownClass(cls):
        codes = [server.stop() for server in cls.servers]
        assert codes == [0, 0], f"warpfold-server exited with {codes}"

    def stripe(self, server: int, array: numpy.ndarray, spec: pb.ReductionSpec, first: int, end: int):
        stream = service.requests(array[first:end], spec, first_element=first, return_state=True)
        return service.call(self.servers[server].stub.Reduce, stream).reduction.state

    def merge(self, spec: pb.ReductionSpec, states, **fields) -> pb.Reduction:
        request = pb.MergeRequest(spec=spec, states=states, **fields)
        return service.call(self.servers[0].stub.Merge, request).reduction

    def stripes(self, array: numpy.ndarray, spec: pb.ReductionSpec, boundaries):
        edges = [0, *boundaries, len(array)]
        return [self.stripe(i % 2, array, spec, first, end)
                for i, (first, end) in enumerate(zip(edges, edges[1:]))]

    def assert_same_in_stripes(self, array: numpy.ndarray, names, boundaries):
        spec = service.spec(array, names)
        whole = service.call(self.servers[1].stub.Reduce,
                             service.requests(array, spec, return_state=True)).reduction
        merged = self.merge(spec, self.stripes(array, spec, boundaries), return_state=True)
        self.assertEqual(merged.results, whole.results)
        self.assertEqual(merged.element_count, len(array))
        self.assertEqual(merged.state.SerializeToString(), whole.state.SerializeToString())

    def test_scalars(self):
        rng = numpy.random.default_rng(29)
        for dtype, names in (("float64", ["sum", "product", "mean", "argmax", "min"]),
                             ("float32", ["sum", "mean", "argmin", "any"]),
                             ("int64", ["max", "bit_xor", "count_nonzero", "argmin"])):
            array = (rng.standard_normal(100_003) * 1000).astype(dtype)
            leaf = leaf_elements(array.itemsize)
            for leaves in ((1,), (7, 8, 64), (5, 5, 130), (97,), (0, 1, 2, 3, 100)):
                with self.subTest(dtype, leaves=leaves):
                    self.assert_same_in_stripes(array, names, [n * leaf for n in leaves])

    def test_matrices(self):
        array = numpy.random.default_rng(31).integers(-9, 9, (5000, 3, 3), numpy.int32)
        leaf = leaf_elements(36)
        self.assert_same_in_stripes(array, ["matrix_product", "sum"], [leaf, 9 * leaf])

    def test_merged_states_merge_again(self):
        array = numpy.random.default_rng(37).standard_normal(70_000)
        spec = service.spec(array, ["sum"])
        whole = service.reduce(self.servers[0], array, ["sum"])
        first, second, third = self.stripes(array, spec, [512 * 31, 512 * 77])
        left = self.merge(spec, [self.merge(spec, [first, second], return_state=True).state, third])
        right = self.merge(spec, [first, self.merge(spec, [second, third], return_state=True).state])
        self.assertEqual(left.results, whole.results)
        self.assertEqual(right.results, whole.results)

    def test_a_stripe_need_not_have_a_value(self):
        array = numpy.array([2**62] * 512 + [-2**62] * 512, numpy.int64)
        spec = service.spec(array, ["sum"])
        stream = service.requests(array[:512], spec, return_state=True)
        stripe = service.call(self.servers[0].stub.Reduce, stream).reduction
        self.assertIsNone(stripe.results[0].WhichOneof("value"))
        rest = self.stripe(1, array, spec, 512, 1024)
        self.assertEqual(self.merge(spec, [stripe.state, rest]).results[0].int64_value, 0)

    def test_states_that_do_not_fit_are_refused(self):
        array = numpy.arange(5000, dtype=numpy.float32)
        spec = service.spec(array, ["sum", "argmax"])  # states of nodes, and of the range
        first, second, third = self.stripes(array, spec, [1024, 2048])
        torn = pb.PartialState.FromString(second.SerializeToString())
        torn.nodes[0].operator_states[0] = torn.nodes[0].operator_states[0][:-1]
        cut = pb.PartialState.FromString(second.SerializeToString())
        cut.range_states[0] = cut.range_states[0][:-1]
        longer = pb.PartialState.FromString(second.SerializeToString())
        longer.element_count += 1024
        far = pb.PartialState.FromString(second.SerializeToString())
        far.first_element, far.element_count = 2**64 - 1024, 2**63
        other = service.spec(array, ["sum", "max"])
        for label, of, states in (("gap", spec, [first, third]), ("order", spec, [second, first]),
                                  ("twice", spec, [first, first]), ("torn", spec, [first, torn]),
                                  ("cut", spec, [first, cut]),
                                  ("ends inside a leaf", spec, [third, third]), ("longer", spec, [longer]),
                                  ("overflow", spec, [far]), ("other operators", other, [first])):
            with self.subTest(label):
                with self.assertRaises(Failure) as raised:
                    self.merge(of, states)
                self.assertEqual((raised.exception.code, raised.exception.reason),
                                 ("INVALID_ARGUMENT", "BAD_STATE"))


if __name__ == "__main__":
    unittest.main()
