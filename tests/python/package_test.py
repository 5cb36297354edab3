# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The package itself: what its import brings in, its types, its form, and the pages that show it."""

import contextlib
import copy
import importlib.metadata
import importlib.util
import inspect
import io
import pathlib
import pickle
import re
import subprocess
import sys
import typing

import numpy
import pytest

import warpfold
from conftest import Server
from warpfold import aio, memory
from warpfold.calls import CallOptions, CommonOptions
from warpfold.later import Later
from warpfold.resident import AsyncResidentArray

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_SOURCE = _ROOT / "client/python"
_ADDRESS = "127.0.0.1:50051"
_SOCKET = "/run/warpfold/memory"


def run(*command):
    done = subprocess.run([sys.executable, *command], cwd=_SOURCE, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_import_brings_in_nothing_heavy():
    heavy = ("numpy", "asyncio", "torch", "jax", "cupy", "pyarrow", "dask", "distributed", "tqdm",
             "ml_dtypes", "concurrent.futures", "ctypes", "multiprocessing", "pathlib", "urllib.parse")
    # Not from the folder in which it runs: its package is not built if pip has installed one.
    loaded = run("-P", "-c", "import warpfold, sys; print(*sys.modules)").split()
    assert not set(heavy) & set(loaded)


_LATER = """
import sys
import warpfold

assert {"aio", "dask", "files"} <= set(dir(warpfold)) and not hasattr(warpfold, "nothing")
assert not any(f"warpfold.{name}" in sys.modules for name in ("aio", "dask", "files"))
print(warpfold.files.npy.__module__, warpfold.aio.connect.__module__)
sys.modules["dask"] = None
try:
    warpfold.dask
except AttributeError as error:
    print(error)
print(hasattr(warpfold, "dask"))
del sys.modules["dask"]
"""


def test_modules_are_there_without_an_import_of_their_own():
    lines = run("-P", "-c", _LATER).splitlines()
    assert lines == ["warpfold.files warpfold.aio", "warpfold.dask needs dask, which is not installed: "
                     "pip install 'dask[array]'", "False"]


def test_the_module_for_dask_is_there_with_it():
    pytest.importorskip("dask.array")
    assert run("-P", "-c", "import warpfold; print(warpfold.dask.reduce.__module__)") == "warpfold.dask\n"


_IN_A_SUBINTERPRETER = """
try:
    import _interpreters
    def run(code): print(_interpreters.exec(_interpreters.create("legacy"), code).formatted)
except ImportError:
    import _xxsubinterpreters
    def run(code):
        try: _xxsubinterpreters.run_string(_xxsubinterpreters.create(isolated=False), code)
        except _xxsubinterpreters.RunFailedError as error: print(error)
{before}
run("import warpfold")
"""


@pytest.mark.parametrize("before", ["", "import warpfold"])
def test_subinterpreters_are_refused(before):
    said = run("-P", "-c", _IN_A_SUBINTERPRETER.format(before=before))
    assert "ImportError" in said and "main interpreter alone, not in a subinterpreter" in said


@pytest.mark.parametrize("before", ["", "import warpfold"])
def test_a_refused_subinterpreter_leaves_the_main_interpreter_alone(before):
    """Previously, calls of the main interpreter were TypeErrors after it, and then ended the process."""
    after = "import warpfold\n" \
            "client = warpfold.connect('127.0.0.1:1')\n" \
            "try: client.sum([1, 2], timeout=0.1)\n" \
            "except warpfold.WarpfoldError as error: print('refused as ever', type(error).__name__)"
    said = run("-P", "-c", _IN_A_SUBINTERPRETER.format(before=before) + after)
    assert "not in a subinterpreter" in said and "refused as ever" in said


def test_the_package_is_imported_once():
    said = run("-P", "-c", "import sys, warpfold\n"
                           "for name in list(sys.modules):\n"
                           "    if name.startswith('warpfold'): del sys.modules[name]\n"
                           "try: import warpfold\n"
                           "except ImportError as error: print(error)")
    assert "imported once in a process" in said


def test_sources_are_clean():
    run("-m", "ruff", "check", "--config", "pyproject.toml", "warpfold", "../../tests/python",
        "../../tests/benchmarks/python_client.py")


def test_types_are_strict():
    run("-m", "mypy")


_TYPED = """
from collections.abc import Coroutine
from typing import Any, assert_type

import warpfold
from warpfold.resident import AsyncResidentArray

Values = Coroutine[Any, Any, Any]
Results = Coroutine[Any, Any, warpfold.Result]


def of_kept_arrays(kept: warpfold.ResidentArray) -> None:
    assert_type(kept.reduce(["sum"]), warpfold.Result)
    assert_type(kept[1:].reduce_segments(["sum"], lengths=[1]), warpfold.Result)
    assert_type(kept.reshape(1, -1).sum(axis=1), Any)


def of_kept_arrays_of_asyncio(kept: AsyncResidentArray) -> tuple[Values, Results]:
    return assert_type(kept.sum(), Values), assert_type(kept[1:].reduce(["sum"]), Results)


def of_modules(error: Exception) -> None:
    assert isinstance(error, warpfold.errors.NotFoundError)
    assert_type(error.fields, dict[str, str])
"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_types_that_type_checkers_know(checker, tmp_path):
    """pyright takes less for granted than mypy, but needs Node.js: it is asked where it is installed."""
    pytest.importorskip(checker)
    (tmp_path / "typed.py").write_text(_TYPED, encoding="utf-8")
    run("-m", checker, tmp_path / "typed.py")


def hinted():
    """What is public and has annotations of its own."""
    public = [getattr(warpfold, name) for name in warpfold.__all__] + [aio.AsyncClient, AsyncResidentArray]
    for module in (aio, warpfold.files):
        public += [member for name, member in vars(module).items() if not name.startswith("_")
                   and inspect.isfunction(member) and member.__module__ == module.__name__]
    for kind in filter(inspect.isclass, list(public)):
        members = [member.fget if isinstance(member, property) else member
                   for name, member in inspect.getmembers(kind) if not name.startswith("_")]
        public += [member for member in members if inspect.isfunction(member)]
    return [one for one in dict.fromkeys(public) if one.__module__.startswith("warpfold.")
            and (inspect.isclass(one) or inspect.isfunction(one))]


@pytest.mark.parametrize("what", hinted(), ids=lambda what: what.__qualname__)
def test_annotations_can_be_evaluated(what):
    """As typing.get_type_hints does for dataclasses, command lines and pages that are made of a package."""
    assert "return" in typing.get_type_hints(what) or inspect.isclass(what)


def test_annotations_name_types():
    assert typing.get_type_hints(warpfold.Client.empty)["return"] == numpy.ndarray[typing.Any, typing.Any]
    assert typing.get_type_hints(warpfold.Client)["_memory"] == memory.Memory | None


def test_the_package_says_that_it_is_typed():
    folder = pathlib.Path(warpfold.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_native.pyi").exists()


def test_stubs_name_what_the_module_has():
    native = importlib.import_module("warpfold._native")
    stub = (_SOURCE / "warpfold/_native.pyi").read_text(encoding="utf-8")
    public = {name for name in vars(native) if not name.startswith("_")}
    assert public == set(re.findall(r"^(?:class |def )?(\w+)[(:]", stub, re.MULTILINE))
    for name in public:
        if not inspect.isclass(getattr(native, name)):
            continue
        members = {member for member in vars(getattr(native, name)) if not member.startswith("_")}
        declared = re.search(rf"^class {name}\b.*?(?=^class |\Z)", stub, re.MULTILINE | re.DOTALL)
        if members:
            assert members == set(re.findall(r"^    (?:def )?([a-z]\w*)[:(]", declared.group(), re.MULTILINE))


def test_both_clients_have_the_same_methods():
    def methods(kind):
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    assert methods(warpfold.Client) == methods(aio.AsyncClient)


def public_methods(kind):
    return {name: method for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(public_methods(warpfold.Client)))
def test_docstrings_name_arguments_and_errors(name):
    method = public_methods(warpfold.Client)[name]
    text = inspect.getdoc(method)
    parameters = inspect.signature(method).parameters
    for parameter in parameters.keys() - {"self"}:
        assert re.search(rf"\b{parameter}\b", text), f"{parameter} is not in the docstring of {name}:\n{text}"
    if "options" in parameters:
        for option in CallOptions.__annotations__ if "array" in parameters else CommonOptions.__annotations__:
            assert re.search(rf"\b{option}\b", text), f"{option} is not in the docstring of {name}:\n{text}"
    if name != "close":
        assert "Raises" in text
    assert text.count("timeout:") <= 1 and max(map(len, text.splitlines())) <= 110, text
    # asyncio's client says the same, or where to read it.
    other = inspect.getdoc(public_methods(aio.AsyncClient)[name])
    assert other == text or f"As Client.{name}" in other or name == "close"


def test_docstrings_of_kept_arrays():
    for name, method in public_methods(warpfold.ArrayPart).items():
        assert "Raises" in inspect.getdoc(method), name
        assert not re.search("^array:", inspect.getdoc(method), re.MULTILINE), name


def test_docstrings_of_kept_arrays_say_nothing_of_other_arrays():
    for name, method in public_methods(warpfold.ArrayPart).items():
        text = inspect.getdoc(method)
        assert "\n\n\n" not in text and "bytes" not in text, f"{name}:\n{text}"
    assert "dtype: the result's type" in inspect.getdoc(warpfold.ArrayPart.sum)


@pytest.mark.parametrize("name", sorted(public_methods(warpfold.Client)))
def test_docstrings_describe_each_argument_once(name):
    text = inspect.getdoc(public_methods(warpfold.Client)[name])
    items = re.findall(r"^ *(\w+(?:, \w+)*):", text, re.MULTILINE)
    named = [one for item in items for one in item.split(", ")]
    assert len(named) == len(set(named)), text


def test_what_is_said_of_the_package():
    distribution = importlib.metadata.distribution("warpfold")
    metadata = distribution.metadata
    assert metadata["Requires-Python"] == "<3.14,>=3.11" and metadata["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert metadata["Description"].startswith("# warpfold")
    licences = {path.name: path.read_text() for path in distribution.files if path.parent.name == "licenses"}
    assert set(licences) == {"LICENSE", "nanobind.txt", "robin_map.txt"}
    assert "Apache License" in licences["LICENSE"] and "Wenzel Jakob" in licences["nanobind.txt"]
    assert licences["robin_map.txt"].startswith("MIT License\n\nCopyright (c) 2017 Thibaut")
    assert licences["robin_map.txt"].endswith("SOFTWARE.\n") and "*" not in licences["robin_map.txt"]


@pytest.fixture(scope="module")
def near(path):
    with Server(f"--memory_socket={path}", "--resident_bytes=1048576") as server:
        yield server


@pytest.mark.parametrize("page", ["README.md", "client/python/README.md", "docs/python.md"])
def test_what_pages_show(page, near, path):
    blocks = re.findall(r"```python\n(.*?)```", (_ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    shown = [block for block in blocks if "warpfold.connect" in block or "aio.connect" in block]
    if importlib.util.find_spec("ray") is None:  # it has 70 MB, which no other test needs
        shown = [block for block in shown if "import ray" not in block]
    assert shown
    for block in shown:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.replace(_ADDRESS, near.address).replace(_SOCKET, path), page, "exec"), {})
        expected = [line.partition("  # ")[2] for line in block.splitlines() if "print(" in line]
        for line, wanted in zip(printed.getvalue().splitlines(), expected, strict=True):
            assert line == wanted


def test_docstrings_of_methods_that_take_less_than_others():
    for name in ("argmin", "argmax"):
        text = inspect.getdoc(getattr(warpfold.Client, name))
        assert "tuple" not in text and "along it" in text, text
    text = inspect.getdoc(warpfold.Client.put)
    assert re.search(r"^array: .*host's memory", text, re.MULTILINE), text
    assert "a kept array (docs" not in text, text
    for method in (warpfold.Client.put, warpfold.Client.partial, warpfold.Client.reduce_segments):
        said = re.search(r"^dtype:.*(?:\n +.*)*", inspect.getdoc(method), re.MULTILINE).group()
        assert "bytes" in said and "file" not in said and "iterator" not in said, said
    assert "warpfold.errors" not in inspect.getdoc(warpfold.Client.close)
    assert "Unavailable" not in inspect.getdoc(warpfold.Client.close)


def test_what_stands_for_a_module_can_be_copied():
    stands_for_numpy = Later("numpy")
    assert stands_for_numpy.ndarray is numpy.ndarray
    assert copy.copy(stands_for_numpy).ndarray is numpy.ndarray
    assert pickle.loads(pickle.dumps(stands_for_numpy)).ndarray is numpy.ndarray
