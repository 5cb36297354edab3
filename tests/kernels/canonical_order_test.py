# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The canonical order as the document describes it, compared with what the C++ does, to the bit."""

import json
import os
import struct
import subprocess
import unittest

import numpy

import canonical_order
from canonical_elements import Spec, Unsigned


def describe(spec: Spec, results) -> str:
    """Like Describe in expect_same.h."""
    if isinstance(results, str):
        return results
    return " ".join(_describe_one(spec, result) for result in results)


def _describe_one(spec: Spec, result) -> str:
    if isinstance(result, tuple):
        places = (f"{word} {index}" for word, index in zip(("at", "to"), result[1:]))
        return " ".join((_describe_one(spec, result[0]), *places))
    if isinstance(result, bool):
        return "true" if result else "false"
    if isinstance(result, Unsigned):
        return f"uint64 {int(result)}"
    if isinstance(result, (float, numpy.floating)):
        bits = 0x7FF8000000000000 if result != result else struct.unpack("<Q", struct.pack("<d", result))[0]
        return f"double 0x{bits:016x}"
    return f"{'int64' if spec.is_signed else 'uint64'} {result}"


class CanonicalOrderTest(unittest.TestCase):

    def test_the_document_gives_the_bits_of_the_code(self):
        dump = subprocess.run([os.environ["WARPFOLD_DUMP_REDUCTIONS"]], stdout=subprocess.PIPE, check=True)
        lines = dump.stdout.splitlines()
        self.assertGreater(len(lines), 1000)
        for line in map(json.loads, lines):
            spec = Spec(**line["spec"])
            with self.subTest(spec=spec, first=line["first"]):
                nodes, range_state, results = canonical_order.reduce(
                    spec, bytes.fromhex(line["data"]), line["first"])
                got = [[level, index, state.hex()] for level, index, state in nodes]
                self.assertEqual(got, line["nodes"])
                self.assertEqual(range_state.hex(), line["range"])
                self.assertEqual(describe(spec, results), line["value"])


if __name__ == "__main__":
    unittest.main()
