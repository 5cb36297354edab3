# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Every operator and element type that the server lists, compared with NumPy."""

import struct
import unittest

import numpy

import oracles
import service
from service import Failure, pb

_WHOLE = ("matrix_product", "affine_compose")
_SCALARS_ONLY = ("argmin", "argmax", "variance", "stddev", "minmax", "describe", "logsumexp", "first", "last",
                 "max_subarray_sum", "exact_sum")


def arrays(dtype: str):
    """Random, short, long, and awkward arrays of one type, each with a name."""
    rng = numpy.random.default_rng(7)
    kind = numpy.dtype(dtype).kind
    for size in (1, 2, 3, 63, 1024, 1025, 50021):
        if kind == "f":
            yield f"normal {size}", rng.standard_normal(size).astype(dtype)
        else:
            limits = numpy.iinfo(dtype)
            yield f"uniform {size}", rng.integers(limits.min, limits.max, size, dtype, endpoint=True)
            yield f"small {size}", rng.integers(0, 3, size, dtype)
    yield "empty", numpy.empty(0, dtype)
    yield "zeros", numpy.zeros(5000, dtype)
    yield "ones", numpy.ones(5000, dtype)
    yield "ties", numpy.array([3, 1, 2, 1, 3] * 700, dtype)
    yield "powers of two", numpy.array([2] * 40 + [1] * 3000, dtype)
    if kind == "f":
        limits, nan, inf = numpy.finfo(dtype), numpy.nan, numpy.inf
        yield "one NaN", numpy.array([1, 2, nan, -3] + [0.5] * 3000, dtype)
        yield "only NaN", numpy.array([nan] * 1500, dtype)
        yield "infinities", numpy.array([inf, 1, inf], dtype)
        yield "both infinities", numpy.array([inf, -inf, 1], dtype)
        yield "NaN after infinity", numpy.array([-inf, nan, inf, nan], dtype)
        yield "zeros of both signs", numpy.array([0.0, -0.0] * 1200, dtype)
        yield "zeros of both signs, reversed", numpy.array([-0.0, 0.0] * 1200, dtype)
        yield "negative zeros", numpy.array([-0.0] * 3, dtype)
        yield "largest and smallest", numpy.array([limits.max, limits.tiny, -limits.max], dtype)
        yield "subnormal", numpy.array([limits.smallest_subnormal] * 3, dtype)
    else:
        limits = numpy.iinfo(dtype)
        yield "largest", numpy.full(3000, limits.max, dtype)
        yield "smallest", numpy.full(3000, limits.min, dtype)
        yield "product 2^63", numpy.array([2] * 63, dtype)
        yield "product 2^64", numpy.array([2] * 64, dtype)
        if kind == "i":
            yield "product -2^63", numpy.array([2] * 63 + [-1], dtype)


class OperatorsTest(service.ServerTestCase):

    def test_the_table_is_the_contract(self):
        info = service.call(self.server.stub.GetServerInfo, pb.GetServerInfoRequest())
        numbers = {service.ELEMENT_TYPES[t]: t for t in service.ELEMENT_TYPES}
        names = [pb.Operator.Name(o.operator).removeprefix("OPERATOR_").lower() for o in info.operators]
        self.assertEqual(names, [n.removeprefix("OPERATOR_").lower() for n in pb.Operator.keys()[1:]])
        for name, row in zip(names, info.operators):
            scalars = {numbers[t] for t in row.scalar_types}
            matrices = {numbers[t] for t in row.matrix_types}
            integers = set(oracles.INTEGERS + ("bool",))
            every = integers | set(oracles.FLOATS + ("bfloat16",))
            floats = every - integers
            with self.subTest(name):
                self.assertEqual(scalars, {"bit_and": integers, "bit_or": integers, "bit_xor": integers,
                                           "logsumexp": floats, "exact_sum": floats,
                                           **dict.fromkeys(_WHOLE, set())}.get(name, every))
                wanted = {"bit_and": integers, "bit_or": integers, "bit_xor": integers,
                          **dict.fromkeys(_SCALARS_ONLY, set()),
                          **dict.fromkeys(_WHOLE, {t for t in every if t[-2:] in ("32", "64")})}
                self.assertEqual(matrices, wanted.get(name, every))

    def test_unsupported_pairs_are_refused(self):
        for name, array in (("bit_and", numpy.ones(3)), ("matrix_product", numpy.ones(3)),
                            ("matrix_product", numpy.ones((2, 2, 3))), ("argmin", numpy.ones((2, 2, 2))),
                            ("affine_compose", numpy.ones(2)), ("affine_compose", numpy.ones((2, 2, 2))),
                            ("affine_compose", numpy.ones((3, 1, 2), numpy.int16)),
                            ("logsumexp", numpy.ones(2, int)), ("exact_sum", numpy.ones(2, int)),
                            ("describe", numpy.ones((2, 1, 2)))):
            with self.subTest(name, shape=array.shape):
                failure = self.assert_fails("INVALID_ARGUMENT", "UNSUPPORTED_TYPE", service.reduce,
                                            self.server, array, [name])
                self.assertIn(name, failure.message)

    def check(self, name: str, array: numpy.ndarray, wrap=False, ignore_nan=False):
        options = {"overflow_policy": pb.OVERFLOW_POLICY_WRAP if wrap else pb.OVERFLOW_POLICY_UNSPECIFIED,
                   "nan_policy": pb.NAN_POLICY_IGNORE if ignore_nan else pb.NAN_POLICY_UNSPECIFIED}
        try:
            wanted, index = oracles.expected(name, array, wrap, ignore_nan)
        except Failure as failure:
            self.assert_fails(failure.code, failure.reason, service.reduce, self.server, array, [name],
                              **options)
            return
        reduction = service.reduce(self.server, array, [name], **options)
        result = reduction.results[0]
        got = service.value(result)
        self.assertEqual(reduction.element_count, len(array))
        self.assertEqual(result.operator, service.operator(name))
        self.assertTrue(oracles.same(name, array, got, wanted), f"got {got!r}, wanted {wanted!r}")
        self.assertEqual(result.index if result.HasField("index") else None, index)

    def check_types(self, dtypes, names, **options):
        for dtype in dtypes:
            for label, array in arrays(dtype):
                for name in names:
                    with self.subTest(name, dtype=dtype, array=label, **options):
                        self.check(name, array, **options)

    def test_integers(self):
        self.check_types(oracles.INTEGERS, ("sum", "product", "min", "max", "argmin", "argmax", "bit_and",
                                            "bit_or", "bit_xor", "all", "any", "count_nonzero", "mean"))

    def test_integers_that_wrap(self):
        self.check_types(oracles.INTEGERS, ("sum", "product"), wrap=True)

    def test_floats(self):
        self.check_types(oracles.FLOATS, ("sum", "product", "min", "max", "argmin", "argmax", "all", "any",
                                          "count_nonzero", "mean"))

    def test_floats_without_nan(self):
        self.check_types(oracles.FLOATS, ("sum", "product", "min", "max", "argmin", "argmax", "all", "any",
                                          "count_nonzero", "mean"), ignore_nan=True)

    def test_several_operators_in_one_pass(self):
        array = numpy.arange(-5, 5000, dtype=numpy.int64)
        names = ["max", "sum", "argmin", "any"]
        results = service.reduce(self.server, array, names).results
        self.assertEqual([service.value(r) for r in results], [4999, int(array.sum()), -5, True])
        self.assertEqual(results[2].index, 0)

    def test_reduce_array_has_the_same_bits(self):
        rng = numpy.random.default_rng(3)
        for size in (0, 1, 1000, 100003):
            array = rng.standard_normal(size)
            spec = service.spec(array, ["sum", "count_nonzero"])
            one = pb.ReduceArrayRequest(spec=spec, data=array.tobytes())
            whole = service.call(self.server.stub.ReduceArray, one).reduction
            streamed = service.reduce(self.server, array, ["sum", "count_nonzero"])
            self.assertEqual(*(struct.pack("<d", r.results[0].double_value) for r in (whole, streamed)))
            self.assertEqual(whole.results[1], streamed.results[1])


class MatricesTest(service.ServerTestCase):

    def product(self, array: numpy.ndarray, **options) -> numpy.ndarray:
        return service.value(service.reduce(self.server, array, ["matrix_product"], **options).results[0])

    def test_integer_products_modulo_the_word(self):
        rng = numpy.random.default_rng(11)
        for dtype in ("int32", "int64", "uint32", "uint64"):
            limits = numpy.iinfo(dtype)
            for d in (*range(1, 9), 12, 31, 32):
                count = 131 if d < 9 else 21
                array = rng.integers(limits.min, limits.max, (count, d, d), dtype, endpoint=True)
                with self.subTest(dtype, d=d):
                    self.assertEqual(self.product(array).tolist(), oracles.matrix_product(array).tolist())

    def test_integer_products_modulo_a_prime(self):
        rng = numpy.random.default_rng(13)
        for dtype, modulus in (("uint32", 4294967291), ("int32", 2147483647), ("int64", 2**61 - 1),
                               ("uint64", 18446744073709551557), ("int32", 2)):
            limits = numpy.iinfo(dtype)
            for count, d in ((500, 3), (21, 16), (9, 32)):
                array = rng.integers(limits.min, limits.max, (count, d, d), dtype, endpoint=True)
                with self.subTest(dtype, d=d, modulus=modulus):
                    self.assertEqual(self.product(array, modulus=modulus).tolist(),
                                     oracles.matrix_product(array, modulus).tolist())

    def test_order_matters(self):
        array = numpy.random.default_rng(17).integers(0, 100, (2000, 2, 2), numpy.int64)
        swapped = array.copy()
        swapped[[998, 999]] = swapped[[999, 998]]
        products = [self.product(a, modulus=2**61 - 1).tolist() for a in (array, swapped)]
        self.assertEqual(products[1], oracles.matrix_product(swapped, 2**61 - 1).tolist())
        self.assertNotEqual(products[0], products[1])

    def test_affine_maps(self):
        rng = numpy.random.default_rng(29)
        for dtype, modulus in (("int32", 0), ("uint32", 0), ("int64", 0), ("uint64", 0),
                               ("uint32", 4294967291), ("int32", 2), ("int64", 2**61 - 1),
                               ("uint64", 18446744073709551557)):
            limits = numpy.iinfo(dtype)
            for size in (0, 1, 2, 1000, 20011):
                array = rng.integers(limits.min, limits.max, (size, 1, 2), dtype, endpoint=True)
                array[:, :, 0] |= 1  # modulo a power of two the slope would soon be zero
                options = {"modulus": modulus} if modulus else {}
                result = service.reduce(self.server, array, ["affine_compose"], **options).results[0]
                with self.subTest(dtype, modulus=modulus, size=size):
                    self.assertEqual(service.value(result).tolist(),
                                     [oracles.affine_compose(array, modulus)])

    def test_affine_maps_of_floats(self):
        rng = numpy.random.default_rng(31)
        for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-14)):
            array = rng.uniform(-0.5, 0.5, (5000, 1, 2)).astype(dtype)
            slope, offset = 1.0, 0.0
            for a, b in array[:, 0].astype(float).tolist():
                slope, offset = a * slope, a * offset + b
            result = service.reduce(self.server, array, ["affine_compose"]).results[0]
            numpy.testing.assert_allclose(service.value(result), [[slope, offset]], atol=tolerance)

    def test_float_products(self):
        rng = numpy.random.default_rng(19)
        for dtype, tolerance in (("float32", 1e-3), ("float64", 1e-10)):
            array = numpy.linalg.qr(rng.standard_normal((300, 4, 4)))[0].astype(dtype)
            numpy.testing.assert_allclose(self.product(array), oracles.matrix_product(array), atol=tolerance)

    def test_empty_product_is_the_identity(self):
        self.assertEqual(self.product(numpy.empty((0, 3, 3), numpy.int32)).tolist(),
                         numpy.identity(3, int).tolist())

    def test_other_operators_act_entry_by_entry(self):
        for dtype in oracles.INTEGERS + oracles.FLOATS:
            for shape in ((777, 2, 5), (77, 32, 31)):
                array = numpy.random.default_rng(23).integers(0, 1000, shape).astype(dtype)
                results = service.reduce(self.server, array, ["sum", "min", "max"]).results
                with self.subTest(dtype, shape=shape):
                    wide = array.astype(numpy.float64) if dtype in oracles.FLOATS else array
                    for result, oracle in zip(results, (numpy.sum, numpy.min, numpy.max)):
                        self.assertEqual(service.value(result).tolist(), oracle(wide, axis=0).tolist())


if __name__ == "__main__":
    unittest.main()
