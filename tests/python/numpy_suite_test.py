# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""NumPy's own tests of its reductions, run through the package: all pass but those named here."""

import json
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

_FILES = [
    "lib/tests/test_nanfunctions.py",
    "lib/tests/test_function_base.py",
    "_core/tests/test_numeric.py",
    "_core/tests/test_multiarray.py",
]
_CLASSES = [
    "Nan",
    "TestAll",
    "TestAny",
    "TestAmax",
    "TestAmin",
    "TestPtp",
    "TestAverage",
    "TestNonarrayArgs",
    "TestStdVar",
    "TestKeepdims",
    "TestBoolArray",
    "TestNonzero",
    "TestArgmax",
    "TestArgmin",
    "TestMinMax",
    "TestStats",
]

_FLOAT64 = "means, variances and the like are float64, where NumPy answers float16 and float32 in their type"
_EMPTY = "no value of no elements, or of nothing but NaN, is an error; NumPy warns, and answers NaN"
_TEXT = "the exception is NumPy's, its text is not"
_WARNING = "no warnings: extremes of nothing but NaN are an error or NaN"

# What differs by contract, as docs/python.md has it.
BY_CONTRACT = {
    "TestNanFunctions_MinMax::test_allnans": _WARNING,
    "TestNanFunctions_ArgminArgmax::test_allnans": _TEXT,
    "TestNanFunctions_ArgminArgmax::test_empty": _TEXT,
    "TestNanFunctions_NumberTypes::test_nanfunc": _FLOAT64,
    "TestNanFunctions_NumberTypes::test_nanfunc_ddof": _FLOAT64,
    "TestNanFunctions_SumProd::test_allnans": _FLOAT64,
    "TestNanFunctions_MeanVarStd::test_dtype_from_input": _FLOAT64,
    "TestNanFunctions_MeanVarStd::test_allnans": _EMPTY,
    "TestNanFunctions_MeanVarStd::test_empty": _EMPTY,
    "TestNanFunctions_MeanVarStd::test_where": _FLOAT64,
    "TestNanFunctions_Median::test_empty": _EMPTY,
    "TestNanFunctions_Percentile::test_empty": _EMPTY,
    "TestNonarrayArgs::test_mean": _EMPTY,
    "TestNonarrayArgs::test_std": _EMPTY,
    "TestNonarrayArgs::test_var": _EMPTY,
}


def test_all_pass_but_those_named(server, tmp_path):
    folder = pathlib.Path(numpy.__file__).parent
    files = [str(folder / name) for name in _FILES]
    if not all(pathlib.Path(name).exists() for name in files):
        pytest.skip("this NumPy came without its tests")
    counts_file = tmp_path / "counts.json"
    environment = {
        "WARPFOLD_TARGET": server.address,
        "WARPFOLD_COUNTS": str(counts_file),
        "PYTHONPATH": str(pathlib.Path(__file__).parent),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-B",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "numpy_suite",
            "--tb=short",
            "-k",
            " or ".join(_CLASSES),
            *files,
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    ids = re.findall(r"^FAILED \S*?::(\S+?)(?:\[.*)?(?: - .*)?$", done.stdout, re.MULTILINE)
    failed = set(ids)
    assert re.search(r"\d+ passed", done.stdout), done.stdout[-3000:] + done.stderr[-3000:]
    assert "error" not in done.stdout.splitlines()[-1], done.stdout[-3000:]
    assert failed - BY_CONTRACT.keys() == set(), done.stdout
    assert BY_CONTRACT.keys() - failed == set(), "no longer different"
    counts = json.loads(counts_file.read_text(encoding="utf-8"))
    assert counts["by the server"] > 10_000, counts
    # Whoever reads the log sees what of NumPy's interface was not asked of the package.
    print(counts)
