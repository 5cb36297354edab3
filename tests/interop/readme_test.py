# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The calls of README.md in C++ and of docs/grpc-python.md, run as they stand but for the address.

Environment: WARPFOLD_README_CXX, the program made of the C++ call, which takes the address from
WARPFOLD_TARGET.
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import unittest

import numpy

import service

_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/grpc-python.md"
_ADDRESS = "127.0.0.1:50051"


class ReadmeTest(service.ServerTestCase):

    def test_python(self):
        (code,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
        self.assertIn(f'"{_ADDRESS}"', code)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code.replace(_ADDRESS, self.server.address), str(_PAGE), "exec"), {})
        total, largest = printed.getvalue().splitlines()
        self.assertAlmostEqual(float(total.removeprefix("OPERATOR_SUM ")),
                               float(numpy.linspace(0, 1, 1_000_000).sum()), places=6)
        self.assertEqual(largest, "OPERATOR_MAX 1.0")

    def test_cxx(self):
        done = subprocess.run([os.environ["WARPFOLD_README_CXX"]], stdout=subprocess.PIPE, check=True,
                              env=os.environ | {"WARPFOLD_TARGET": self.server.address})
        self.assertEqual(done.stdout, b"14\n")


if __name__ == "__main__":
    unittest.main()
