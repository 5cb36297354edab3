# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The public array test suite's statistical functions, run through the package: all pass except those named
here.

Environment: WARPFOLD_ARRAY_API_TESTS, a folder with a checkout of data-apis/array-api-tests and its
submodule, whose requirements this Python has. Skipped without it.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

_TESTS = ["array_api_tests/test_statistical_functions.py",
          "array_api_tests/test_special_cases.py::test_empty_arrays",
          "array_api_tests/test_special_cases.py::test_nan_propagation"]
# For each function; this is the suite's own default.
_EXAMPLES = 100
_SEED = [] if "WARPFOLD_RANDOM_EXAMPLES" in os.environ else ["--hypothesis-seed=1"]  # as conftest.py

_FLOAT64 = "sums, products, means, variances and deviations of float32 are float64; complex is refused"
_EMPTY = "the mean, the variance and the deviation of no elements are an error"
_SCANS = "there are no cumulative sums and products: a scan is no reduction"

BY_CONTRACT = {
    "test_cumulative_sum": _SCANS,
    "test_cumulative_prod": _SCANS,
    "test_empty_arrays[mean]": _EMPTY,
    "test_empty_arrays[std]": _EMPTY,
    "test_empty_arrays[var]": _EMPTY,
}
OF_TYPES = {f"test_{name}": _FLOAT64 for name in ("sum", "prod", "mean", "var", "std")}


def run_suite(folder, address, types, tmp_path):
    """The names of the tests that passed, those that failed, and the calls of each method."""
    counts = tmp_path / "counts.json"
    environment = {"WARPFOLD_TARGET": address, "WARPFOLD_TYPES": types, "WARPFOLD_COUNTS": str(counts),
                   "PYTHONPATH": str(pathlib.Path(__file__).parent), "HOME": str(tmp_path),
                   "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path), "ARRAY_API_TESTS_MODULE": "array_api_suite"}
    for path in filter(None, os.environ.get("PYTHONPATH", "").split(":")):  # the package, if not installed
        environment["PYTHONPATH"] += f":{pathlib.Path(path).resolve()}"
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--tb=short",
         "--disable-deadline", f"--max-examples={_EXAMPLES}", *_SEED, *_TESTS],
        cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert re.search(r"\d+ passed", done.stdout), done.stdout[-3000:] + done.stderr[-3000:]
    ended = {outcome: set(re.findall(rf"^{outcome} \S*?::(\S+)", done.stdout, re.MULTILINE))
             for outcome in ("PASSED", "FAILED")}
    assert not re.search(r"^(ERROR|SKIPPED|XFAIL|XPASS) ", done.stdout, re.MULTILINE), done.stdout[-3000:]
    return ended["PASSED"], ended["FAILED"], json.loads(counts.read_text(encoding="utf-8")), done.stdout


@pytest.mark.parametrize("types", ["warpfold", "array"])
def test_all_pass_but_those_named(server, tmp_path, types):
    folder = os.environ.get("WARPFOLD_ARRAY_API_TESTS")
    if folder is None:
        pytest.skip("WARPFOLD_ARRAY_API_TESTS names no checkout of data-apis/array-api-tests")
    differ = BY_CONTRACT | (OF_TYPES if types == "warpfold" else {})
    passed, failed, counts, log = run_suite(pathlib.Path(folder).resolve(), server.address, types,
                                            tmp_path.resolve())
    assert failed - differ.keys() == set(), log
    assert differ.keys() - failed == set(), "no longer different"
    print(f"{types}: {len(passed)} passed, {len(failed)} differ by contract, calls {counts}")
    assert {"test_min", "test_max", "test_empty_arrays[sum]", "test_nan_propagation[std]"} <= passed
    assert all(counts[name] >= _EXAMPLES for name in ("sum", "prod", "min", "max", "mean", "var", "std"))
