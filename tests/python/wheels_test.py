# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The wheels, in a bare environment of each Python for which they are built: the first call to a real server,
and the suites of methods, arrays and bad input. Also that they bring everything that other machines may lack.

Pythons are python3.11 and so on: those that WARPFOLD_PYTHONS names, separated by colons, on the path, or from
pyenv.
"""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_MAX_BYTES = 15 << 20
# Those whose code differs most from one Python and NumPy to another.
_SUITES = ("methods_test.py", "arrays_test.py", "bad_input_test.py")
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_FIRST_CALL = """
import sys
import warpfold
import numpy

with warpfold.connect(sys.argv[1]) as client:
    assert client.sum(numpy.arange(1_000_000)) == 499999500000
    assert client.mean(iter([numpy.ones(3), numpy.zeros(1)])) == 0.75
    print(warpfold._native.__file__)
"""


def interpreter(version):
    """An executable of this version that runs, which not every one on a path does; or None."""
    named = os.environ.get("WARPFOLD_PYTHONS", "").split(":")
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    folders = [*os.environ["PATH"].split(":"), *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin")))]
    for path in [*filter(None, named), *(f"{folder}/python{version}" for folder in folders)]:
        if not os.access(path, os.X_OK):
            continue
        done = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    return None


PYTHONS = {version: interpreter(version) for version in ("3.11", "3.12", "3.13")}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A folder with a wheel for each Python that is installed."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run([_ROOT / "deploy/python_wheel.sh", folder, *filter(None, PYTHONS.values())], check=True)
    return folder


def install(python, *what):
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install",
                    "--only-binary=:all:", *what], check=True)


@pytest.mark.parametrize("version", PYTHONS)
def test_in_a_bare_environment(version, wheels, server, tmp_path):
    if PYTHONS[version] is None:
        pytest.skip(f"there is no Python {version}: not on the path, in WARPFOLD_PYTHONS or of pyenv")
    subprocess.run([PYTHONS[version], "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin/python"
    (wheel,) = wheels.glob(f"*-cp{version.replace('.', '')}-*")
    install(python, wheel)
    done = subprocess.run([python, "-I", "-c", _FIRST_CALL, server.address], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert f"_native.cpython-{version.replace('.', '')}" in done.stdout
    install(python, "pytest", "ml_dtypes")
    done = subprocess.run([python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *_SUITES],
                          cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    print(f"Python {version}: {done.stdout.splitlines()[-1]}", file=sys.stderr)


def test_names_and_sizes(wheels):
    names = [path.name for path in sorted(wheels.iterdir())]
    numbers = [f"cp{version.replace('.', '')}" for version, python in PYTHONS.items() if python is not None]
    tags = [f"{number}-{number}" for number in numbers]
    assert len(names) == len(tags), names
    for name, tag in zip(names, tags, strict=True):
        assert f"-{tag}-manylinux_" in name and name.endswith("_x86_64.whl")
        size = (wheels / name).stat().st_size
        print(f"{name}: {size} bytes", file=sys.stderr)
        assert size <= _MAX_BYTES


def test_they_have_the_licences_of_what_is_in_them(wheels):
    for wheel in wheels.iterdir():
        with zipfile.ZipFile(wheel) as archive:
            texts = {name.partition(".dist-info/licenses/")[2]: archive.read(name).decode()
                     for name in archive.namelist() if ".dist-info/licenses/" in name}
            libraries = [name for name in archive.namelist() if ".libs/" in name]
        assert set(texts) == {"LICENSE", "nanobind.txt", "robin_map.txt", "libraries.txt"}
        assert libraries and len(texts["libraries.txt"]) < 1 << 20
        for words in ("libgrpc++", "libprotobuf", "libabsl", "libssl", "common-licenses/Apache-2.0\n"):
            assert words in texts["libraries.txt"], words


def test_they_link_nothing_that_other_machines_may_lack(wheels, tmp_path):
    """auditwheel reads what every library in the wheel links, and which symbols it uses: each is in the
    wheel, or in a library that all machines of the platform in the wheel's name have."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    install(tmp_path / "bin/python", "auditwheel")
    for wheel in wheels.iterdir():
        done = subprocess.run([tmp_path / "bin/auditwheel", "show", wheel], capture_output=True, text=True,
                              check=True)
        shown = " ".join(done.stdout.split())
        consistent = re.search(r'consistent with the following platform tag: "(\w+)"', shown)
        assert consistent is not None, shown
        assert consistent[1].startswith("manylinux_") and consistent[1] in wheel.name, shown
