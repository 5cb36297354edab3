# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The call of docs/grpc-python.md, run as it stands except for the address."""

import contextlib
import io
import pathlib
import re
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


if __name__ == "__main__":
    unittest.main()
