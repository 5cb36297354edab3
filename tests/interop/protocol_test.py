# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The order of messages, every legal layout of them, and the responses to bad input."""

import random
import threading
import unittest

import grpc
import numpy

import service
from service import Failure, chunk, commit, header, pb

_REDUCE = "/warpfold.v1.ReductionService/Reduce"
_HEALTH = "/grpc.health.v1.Health/Check"
_ARRAY = numpy.arange(-3, 9, dtype=numpy.int32)
_BYTES = _ARRAY.tobytes()
_SPEC = service.spec(_ARRAY, ["sum"])
_WHOLE = commit(len(_ARRAY), len(_BYTES))


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def field(number: int, content) -> bytes:
    """One field of a message: bytes become a length-delimited field, an int becomes a varint."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def fixed32(number: int, content: int) -> bytes:
    return varint(number << 3 | 5) + content.to_bytes(4, "little")


class RawTestCase(service.ServerTestCase):
    """Sends messages as bytes that it makes itself."""

    def reduce_raw(self, *messages: bytes) -> pb.Reduction:
        method = self.server.channel.stream_unary(_REDUCE, response_deserializer=pb.ReduceResponse.FromString)
        return service.call(method, iter(messages)).reduction

    def assert_sum(self, *messages: bytes):
        self.assertEqual(self.reduce_raw(*messages).results[0].int64_value, int(_ARRAY.sum()))


class LayoutTest(RawTestCase):
    """Protobuf lets writers choose among many encodings of one message."""

    HEADER = header(_SPEC).SerializeToString()
    CHUNK = chunk(_BYTES).SerializeToString()
    COMMIT = _WHOLE.SerializeToString()
    UNKNOWN = field(1000, b"from a later version") + field(1001, 7) + fixed32(1002, 9)

    def test_as_written_by_protobuf(self):
        self.assert_sum(self.HEADER, self.CHUNK, self.COMMIT)

    def test_unknown_fields(self):
        body = chunk(_BYTES).chunk.SerializeToString()
        self.assert_sum(self.HEADER + self.UNKNOWN, self.CHUNK, self.COMMIT)
        self.assert_sum(self.UNKNOWN + self.HEADER, self.CHUNK + self.UNKNOWN, self.UNKNOWN + self.COMMIT)
        self.assert_sum(self.HEADER, field(15, self.UNKNOWN + body), self.COMMIT)
        self.assert_sum(self.HEADER, field(15, body + self.UNKNOWN), self.COMMIT)

    def test_fields_in_another_order(self):
        data, checksum = field(15, _BYTES), fixed32(1, crc32c(_BYTES))
        self.assert_sum(self.HEADER, field(15, checksum + data), self.COMMIT)
        self.assert_sum(self.HEADER, field(15, data + checksum), self.COMMIT)
        backwards = field(2, len(_BYTES)) + field(1, len(_ARRAY))
        self.assert_sum(self.HEADER, self.CHUNK, field(2, backwards))

    def test_a_repeated_field_counts_once_and_the_last_wins(self):
        self.assert_sum(self.HEADER, field(15, field(15, b"other") + field(15, _BYTES)), self.COMMIT)
        self.assert_sum(self.HEADER, self.CHUNK, field(15, b"") + self.COMMIT)

    def test_lengths_with_leading_zeros(self):
        long_length = varint(15 << 3 | 2) + bytes([len(_BYTES) | 0x80, 0x80, 0x00]) + _BYTES
        self.assert_sum(self.HEADER, field(15, long_length), self.COMMIT)

    def test_unpacked_operators(self):
        one_by_one = field(1, service.operator("max")) + field(1, service.operator("sum"))
        reduction = self.reduce_raw(field(1, field(1, one_by_one + field(2, pb.ELEMENT_TYPE_INT32))),
                                    self.CHUNK, self.COMMIT)
        self.assertEqual([r.int64_value for r in reduction.results], [8, int(_ARRAY.sum())])

    def test_empty_chunks(self):
        empty = chunk(b"").SerializeToString()
        self.assertEqual(empty, field(15, b""))
        self.assert_sum(self.HEADER, empty, self.CHUNK, field(15, field(15, b"")), self.COMMIT)

    def test_malformed_messages(self):
        for bad in (b"\xff", field(15, b"\x7a\x05ab"), field(1, b"\x0f"), b"\x7a\xff\xff\xff\xff\x0f",
                    varint(15 << 3 | 3), b"\x00\x00"):
            for stream in ((bad,), (self.HEADER, bad), (self.HEADER, self.CHUNK, bad)):
                with self.subTest(bad=bad, after=len(stream) - 1):
                    self.assert_fails("INVALID_ARGUMENT", "BAD_MESSAGE", self.reduce_raw, *stream)


class OrderTest(service.ServerTestCase):

    def reduce(self, *messages: pb.ReduceRequest) -> pb.Reduction:
        return service.call(self.server.stub.Reduce, iter(messages)).reduction

    def test_messages_out_of_order(self):
        for stream in ((chunk(_BYTES), header(_SPEC), _WHOLE), (_WHOLE,), (header(_SPEC), header(_SPEC)),
                       (header(_SPEC), chunk(_BYTES), header(_SPEC)),
                       (header(_SPEC), chunk(_BYTES), _WHOLE, chunk(_BYTES)),
                       (header(_SPEC), chunk(_BYTES), _WHOLE, _WHOLE)):
            with self.subTest([m.WhichOneof("message") for m in stream]):
                self.assert_fails("INVALID_ARGUMENT", "BAD_ORDER", self.reduce, *stream)

    def test_no_commit(self):
        for stream in ((), (header(_SPEC),), (header(_SPEC), chunk(_BYTES))):
            with self.subTest(len(stream)):
                self.assert_fails("DATA_LOSS", "NO_COMMIT", self.reduce, *stream)

    def test_commit_that_does_not_match(self):
        for count, size in ((11, 44), (13, 52), (12, 44), (11, 48), (0, 0), (2**62, 2**64 - 1)):
            with self.subTest(count=count, size=size):
                self.assert_fails("DATA_LOSS", "COUNT_MISMATCH", self.reduce, header(_SPEC), chunk(_BYTES),
                                  commit(count, size))

    def test_an_element_cut_off(self):
        for count in (11, 12):
            self.assert_fails("DATA_LOSS", "COUNT_MISMATCH", self.reduce, header(_SPEC), chunk(_BYTES[:-1]),
                              commit(count, 47))

    def test_checksums(self):
        good, bad = crc32c(_BYTES), crc32c(_BYTES) ^ 1
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        announced = header(_SPEC, with_crc32c=True)
        for first in (chunk(_BYTES), chunk(_BYTES, crc32c=good)):
            reduction = self.reduce(announced, first, commit(12, 48, crc32c=good))
            self.assertEqual(reduction.results[0].int64_value, int(_ARRAY.sum()))
        for in_chunk, in_commit in ((bad, good), (good, bad), (0, good)):
            self.assert_fails("DATA_LOSS", "CHECKSUM_MISMATCH", self.reduce, announced,
                              chunk(_BYTES, crc32c=in_chunk), commit(12, 48, crc32c=in_commit))
        self.assert_fails("DATA_LOSS", "CHECKSUM_MISMATCH", self.reduce, announced, chunk(_BYTES),
                          commit(12, 48, crc32c=bad))
        self.assert_fails("DATA_LOSS", "CHECKSUM_MISMATCH", self.reduce, header(_SPEC),
                          chunk(_BYTES, crc32c=bad))
        # A checksum that nobody announced could not be computed.
        for first, last in ((header(_SPEC), commit(12, 48, crc32c=good)), (announced, commit(12, 48))):
            self.assert_fails("INVALID_ARGUMENT", "BAD_HEADER", self.reduce, first, chunk(_BYTES), last)

    def test_each_result_has_its_own_error(self):
        array = numpy.full(2, 2**63 - 1, numpy.int64)
        reduction = service.reduce(self.server, array, ["sum", "max"])
        error = reduction.results[0].error
        self.assertEqual((error.reason, error.code), ("OVERFLOW", 11))
        self.assertIsNone(reduction.results[0].WhichOneof("value"))
        self.assertEqual(reduction.results[1].int64_value, 2**63 - 1)

    def test_cuts_inside_elements(self):
        array = numpy.random.default_rng(5).standard_normal(8)
        whole = service.reduce(self.server, array, ["sum"]).results
        for cut in range(65):
            self.assertEqual(service.reduce(self.server, array, ["sum"], [cut]).results, whole)
        array = numpy.random.default_rng(6).standard_normal(40009)
        names = ["sum", "mean", "argmin"]
        whole = service.reduce(self.server, array, names).results
        random.seed(9)
        for pieces in (2, 3, 10, 100) * 5:
            cuts = sorted(random.randrange(array.nbytes) for _ in range(pieces))
            self.assertEqual(service.reduce(self.server, array, names, cuts).results, whole)


class RefusalTest(service.ServerTestCase):

    def assert_refused(self, code: str, reason: str, spec: pb.ReductionSpec, **header_fields) -> Failure:
        stream = service.header(spec, **header_fields), commit(0, 0)
        return self.assert_fails(code, reason, service.call, self.server.stub.Reduce, iter(stream))

    def test_operators(self):
        spec = pb.ReductionSpec(element_type=pb.ELEMENT_TYPE_INT32)
        self.assert_refused("INVALID_ARGUMENT", "BAD_HEADER", spec)
        spec.operators[:] = [61]
        self.assert_refused("UNIMPLEMENTED", "UNKNOWN_OPERATOR", spec)
        spec.operators[:] = [pb.OPERATOR_UNSPECIFIED]
        self.assert_refused("INVALID_ARGUMENT", "BAD_HEADER", spec)
        spec.operators[:] = [pb.OPERATOR_SUM, pb.OPERATOR_SUM]
        self.assert_refused("INVALID_ARGUMENT", "BAD_HEADER", spec)

    def test_fields_out_of_range(self):
        good = {"operators": [pb.OPERATOR_SUM], "element_type": pb.ELEMENT_TYPE_INT32}
        product = {"operators": [pb.OPERATOR_MATRIX_PRODUCT],
                   "matrix_shape": pb.MatrixShape(rows=2, columns=2)}
        for change in ({"element_type": 0}, {"element_type": 29}, {"overflow_policy": 9}, {"nan_policy": 9},
                       {"matrix_shape": pb.MatrixShape(rows=33, columns=1)},
                       {"matrix_shape": pb.MatrixShape(rows=0, columns=3)},
                       {"matrix_shape": pb.MatrixShape(rows=2**31, columns=2**31)},
                       product | {"modulus": 1}, product | {"modulus": 0}, product | {"modulus": 2**31}):
            with self.subTest(change):
                self.assert_refused("INVALID_ARGUMENT", "BAD_HEADER", pb.ReductionSpec(**(good | change)))

    def test_header_fields_out_of_range(self):
        self.assert_refused("INVALID_ARGUMENT", "BAD_HEADER", _SPEC, first_element=1)
        self.assert_refused("INVALID_ARGUMENT", "BAD_HEADER", _SPEC, request_id="x" * 129)
        self.assert_refused("INVALID_ARGUMENT", "BAD_HEADER", _SPEC, request_id="two\nlines")

    def test_an_array_beyond_the_limit_is_refused_at_once(self):
        for count in (2**50, 2**62, 2**64 - 1):
            self.assert_refused("RESOURCE_EXHAUSTED", "ARRAY_TOO_LARGE", _SPEC, expected_element_count=count)

    def test_operators_that_need_elements_are_named(self):
        for name in ("min", "max", "argmin", "argmax", "mean"):
            failure = self.assert_refused("INVALID_ARGUMENT", "EMPTY_ARRAY", service.spec(_ARRAY, [name]))
            self.assertIn(name, failure.message)

    def test_small_arrays_in_one_message(self):
        def reduce_array(data: bytes):
            service.call(self.server.stub.ReduceArray, pb.ReduceArrayRequest(spec=_SPEC, data=data))
        failure = self.assert_fails("INVALID_ARGUMENT", "BAD_MESSAGE", reduce_array, _BYTES[:-1])
        self.assertNotIn("/", failure.message)

    def test_a_message_beyond_the_limit(self):
        info = service.call(self.server.stub.GetServerInfo, pb.GetServerInfoRequest())
        with self.assertRaises(Failure) as raised:
            service.call(self.server.stub.Reduce,
                         iter([header(_SPEC), chunk(bytes(info.limits.max_message_bytes + 64))]))
        self.assertEqual(raised.exception.code, "RESOURCE_EXHAUSTED")
        self.assert_serves()

    def test_a_deadline_in_the_middle(self):
        released = threading.Event()
        self.addCleanup(released.set)

        def stream():
            yield header(_SPEC)
            yield chunk(_BYTES)
            released.wait(30)
        with self.assertRaises(Failure) as raised:
            service.call(self.server.stub.Reduce, stream(), timeout_s=0.3)
        self.assertEqual(raised.exception.code, "DEADLINE_EXCEEDED")
        self.assert_serves()

    def test_a_client_that_vanishes(self):
        for _ in range(20):
            channel = grpc.insecure_channel(self.server.address, [("grpc.use_local_subchannel_pool", 1)])
            released = threading.Event()

            def stream():
                yield header(_SPEC)
                yield chunk(_BYTES)
                released.wait(30)
            pending = channel.stream_unary(_REDUCE, pb.ReduceRequest.SerializeToString).future(stream())
            channel.close()
            released.set()
            self.assertFalse(pending.running())
        self.assert_serves()

    def test_unknown_method(self):
        with self.assertRaises(Failure) as raised:
            service.call(self.server.channel.unary_unary("/warpfold.v1.ReductionService/Nothing"), b"")
        self.assertEqual(raised.exception.code, "UNIMPLEMENTED")


class HealthTest(service.ServerTestCase):

    def test_serving(self):
        check = self.server.channel.unary_unary(_HEALTH)
        for name in (b"", b"warpfold.v1.ReductionService"):
            self.assertEqual(service.call(check, field(1, name) if name else b""), field(1, 1))
        with self.assertRaises(Failure) as raised:
            service.call(check, field(1, b"another.Service"))
        self.assertEqual((raised.exception.code, raised.exception.reason), ("NOT_FOUND", "UNKNOWN_SERVICE"))


if __name__ == "__main__":
    unittest.main()
