# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Segments sent by a client made from only the .proto files, compared with NumPy's axis."""

import threading
import unittest
from typing import Iterator

import grpc
import numpy

import service
from service import Failure, pb

# service.py has put the stubs on the import path.
from warpfold.v1 import segments_pb2 as seg
from warpfold.v1 import segments_pb2_grpc

_DTYPES = {seg.SEGMENT_VALUE_KIND_INT64: "<i8", seg.SEGMENT_VALUE_KIND_UINT64: "<u8",
           seg.SEGMENT_VALUE_KIND_DOUBLE: "<f8", seg.SEGMENT_VALUE_KIND_BOOL: "<u8"}
_REQUEST = seg.ReduceSegmentsRequest


def requests(array: numpy.ndarray, operators, length: int | None = None, lengths=None,
             chunk_bytes: int = 1 << 20, **changes) -> Iterator[seg.ReduceSegmentsRequest]:
    header = seg.ReduceSegmentsHeader(spec=service.spec(array, operators))
    if length is not None:
        header.segment_length = length
    yield _REQUEST(header=header)
    data = array.tobytes()
    count = len(lengths) if lengths is not None else len(array) // length if length else 0
    if lengths is not None:
        # All at once: there are few.
        yield _REQUEST(lengths=seg.SegmentLengths(lengths=numpy.asarray(lengths, "<u8").tobytes()))
    for begin in range(0, len(data), chunk_bytes):
        yield _REQUEST(chunk=pb.ReduceChunk(data=data[begin:begin + chunk_bytes]))
    commit = seg.SegmentsCommit(array=pb.ReduceCommit(element_count=len(array), byte_count=len(data)),
                                segment_count=changes.get("segment_count", count))
    yield _REQUEST(commit=commit)


class SegmentsTest(service.ServerTestCase):
    def reduce(self, stream: Iterator[seg.ReduceSegmentsRequest]) -> list[numpy.ndarray]:
        """The columns. Fails unless the responses fit each other."""
        stub = segments_pb2_grpc.SegmentServiceStub(self.server.channel)
        layout, summary, pieces, segments = None, None, [], 0
        try:
            for response in stub.ReduceSegments(stream, timeout=60):
                self.assertIsNone(summary)
                if response.HasField("layout"):
                    layout = response.layout
                elif response.HasField("summary"):
                    summary = response.summary
                else:
                    results = response.results
                    self.assertEqual(results.first_segment, segments)
                    segments += results.segment_count
                    pieces.append(numpy.frombuffer(results.values, "<u8").reshape(-1, results.segment_count))
        except grpc.RpcError as error:
            raise Failure.of(error) from None
        self.assertEqual(summary.segment_count, segments)
        bits = numpy.concatenate(pieces, axis=1) if pieces else numpy.empty((len(layout.columns), 0), "<u8")
        return [column.view(_DTYPES[of.kind]) for column, of in zip(bits, layout.columns, strict=True)]

    def test_rows_equal_numpys(self):
        matrix = numpy.random.default_rng(1).integers(-100, 100, (5000, 37), dtype=numpy.int32)
        for chunk_bytes in (1 << 20, 1001):
            total, largest, at = self.reduce(
                requests(matrix.reshape(-1), ["sum", "argmax"], length=37, chunk_bytes=chunk_bytes))
            numpy.testing.assert_array_equal(total, matrix.sum(axis=1))
            numpy.testing.assert_array_equal(largest, matrix.max(axis=1))
            numpy.testing.assert_array_equal(at, matrix.argmax(axis=1))

    def test_ragged_segments_equal_numpys(self):
        random = numpy.random.default_rng(2)
        lengths = random.integers(0, 2000, 500)
        array = random.integers(0, 2**62, lengths.sum(), dtype=numpy.uint64) >> 12
        ends = numpy.cumsum(lengths)
        parts = [array[end - length:end] for end, length in zip(ends, lengths, strict=True)]
        total, any_ = self.reduce(requests(array, ["sum", "any"], lengths=lengths))
        self.assertEqual(total.tolist(), [int(part.sum()) for part in parts])
        self.assertEqual(any_.tolist(), [int(part.any()) for part in parts])

    def test_a_million_segments(self):
        array = numpy.random.default_rng(3).standard_normal(2_000_000)
        low, high = self.reduce(requests(array, ["minmax"], length=2))
        numpy.testing.assert_array_equal(low, array.reshape(-1, 2).min(axis=1))
        numpy.testing.assert_array_equal(high, array.reshape(-1, 2).max(axis=1))

    def test_bad_streams(self):
        array = numpy.arange(12, dtype=numpy.int32)
        for reason, code, stream in (
                ("COUNT_MISMATCH", "DATA_LOSS", requests(array, ["sum"], length=3, segment_count=5)),
                ("COUNT_MISMATCH", "DATA_LOSS", requests(array, ["sum"], length=5)),
                ("COUNT_MISMATCH", "DATA_LOSS", requests(array, ["sum"], lengths=[6, 7])),
                ("BAD_LENGTHS", "INVALID_ARGUMENT", requests(array, ["sum"], lengths=[6, 5])),
                ("NO_COMMIT", "DATA_LOSS", list(requests(array, ["sum"], length=3))[:-1]),
                ("BAD_ORDER", "INVALID_ARGUMENT", list(requests(array, ["sum"], length=3))[1:]),
                ("BAD_HEADER", "INVALID_ARGUMENT", requests(array, ["sum"], length=0))):
            self.assert_fails(code, reason, self.reduce, iter(stream))

    def test_one_that_stops_to_send(self):
        held = threading.Event()

        def stalling():
            yield from list(requests(numpy.arange(12, dtype=numpy.int32), ["sum"], length=3))[:-1]
            held.wait(30)

        stub = segments_pb2_grpc.SegmentServiceStub(self.server.channel)
        call = stub.ReduceSegments(stalling())
        self.assertTrue(next(call).HasField("layout"))
        call.cancel()
        held.set()
        self.assert_serves()


if __name__ == "__main__":
    unittest.main()
