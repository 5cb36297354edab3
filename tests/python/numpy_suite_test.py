# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""NumPy's own tests of its reductions, run through the package: all pass except those named here."""

import json
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

_FILES = [
    "lib/tests/test_nanfunctions.py", "lib/tests/test_function_base.py", "_core/tests/test_numeric.py",
    "_core/tests/test_multiarray.py"
]
_CLASSES = [
    "Nan", "TestAll", "TestAny", "TestAmax", "TestAmin", "TestPtp", "TestAverage", "TestNonarrayArgs",
    "TestStdVar", "TestKeepdims", "TestBoolArray", "TestNonzero", "TestArgmax", "TestArgmin", "TestMinMax",
    "TestStats"
]

_FLOAT64 = "means, variances and the like are float64, where NumPy answers float16 and float32 in their type"
_EMPTY = "no value of no elements, or of nothing but NaN, is an error; NumPy warns, and answers NaN"
_TEXT = "the exception is NumPy's, its text is not"
_WARNING = "no warnings: what has no value is an error or NaN"

_OBJECTS = "out= may be an array of objects, as for NumPy's functions without nan in their names"
_BITS = "variances are computed in the canonical order: the last bit may be another one"


def over(types, *, ends=("0d-{}-None", "2d-{}-None", "2d-{}-0", "2d-{}-1")):
    """The parameters of tests over NumPy's types and axes."""
    return [end.format(kind) for kind in types for end in ends]


_COMPLEX = over("F", ends=("nanvar-0d-{}", "nanvar-1d-{}", "nanstd-0d-{}", "nanstd-1d-{}"))

# Differences by contract, as in docs/python.md: the reason, and the parameters if not all are meant.
_DIFFERS = {
    "TestNanFunctions_MinMax::test_allnans": (_WARNING, over("efd")),
    "TestNanFunctions_ArgminArgmax::test_allnans": (_TEXT, over("efd")),
    "TestNanFunctions_ArgminArgmax::test_empty": (_TEXT, []),
    "TestNanFunctions_NumberTypes::test_nanfunc": (_FLOAT64, _COMPLEX),
    "TestNanFunctions_NumberTypes::test_nanfunc_ddof": (_FLOAT64, _COMPLEX),
    "TestNanFunctions_SumProd::test_allnans": (_FLOAT64, over("ef")),
    "TestNanFunctions_MeanVarStd::test_dtype_from_input": (_FLOAT64, []),
    "TestNanFunctions_MeanVarStd::test_allnans": (_EMPTY, over("efdF")),
    "TestNanFunctions_MeanVarStd::test_empty": (_EMPTY, []),
    "TestNanFunctions_MeanVarStd::test_where": (_FLOAT64, ["e"]),
    "TestNanFunctions_MeanVarStd::test_out_dtype_error": (_OBJECTS, []),
    "TestNanFunctions_MeanVarStd::test_ddof_too_big": (_WARNING, []),
    "TestNanFunctions_Median::test_empty": (_EMPTY, []),
    "TestNanFunctions_Percentile::test_empty": (_EMPTY, []),
    "TestNonarrayArgs::test_mean": (_EMPTY, []),
    "TestNonarrayArgs::test_std": (_EMPTY, []),
    "TestNonarrayArgs::test_var": (_EMPTY, []),
    "TestNonarrayArgs::test_std_with_mean_keyword_keepdims_false": (_BITS, []),
    "TestNonarrayArgs::test_var_with_mean_keyword_keepdims_false": (_BITS, [])
}
BY_CONTRACT = {name + (f"[{parameter}]" if parameter else ""): why
               for name, (why, parameters) in _DIFFERS.items() for parameter in parameters or [""]}


def test_all_pass_but_those_named(server, tmp_path):
    folder = pathlib.Path(numpy.__file__).parent
    files = [str(folder / name) for name in _FILES]
    if not all(pathlib.Path(name).exists() for name in files):
        pytest.skip("this NumPy came without its tests")
    counts_file = tmp_path / "counts.json"
    environment = {
        "WARPFOLD_TARGET": server.address,
        "WARPFOLD_COUNTS": str(counts_file),
        "PYTHONPATH": ":".join([str(pathlib.Path(__file__).parent), *filter(None, sys.path[1:])]),
        "HOME": str(tmp_path)
    }
    done = subprocess.run([
        sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "numpy_suite",
        "--tb=short", "-k", " or ".join(_CLASSES), *files
    ], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    failed = set(re.findall(r"^FAILED \S*?::(\S+?)(?: - .*)?$", done.stdout, re.MULTILINE))
    assert re.search(r"\d+ passed", done.stdout), done.stdout[-3000:] + done.stderr[-3000:]
    assert "error" not in done.stdout.splitlines()[-1], done.stdout[-3000:]
    assert failed - BY_CONTRACT.keys() == set(), done.stdout
    assert BY_CONTRACT.keys() - failed == set(), "no longer different"
    counts = json.loads(counts_file.read_text(encoding="utf-8"))
    assert counts["by the server"] > 20_000 and counts["by the server with axis="] > 1_000, counts
    assert counts["by the server with dtype="] > 100 and counts["by the server with out="] > 100, counts
    # The log shows which parts of NumPy's interface the package was not asked for.
    print(json.dumps(counts, indent=1), file=sys.stderr)
