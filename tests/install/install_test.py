# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` installs, as its users use it: a project of their own, pkg-config, a shell.

Environment: WARPFOLD_BUILD, the build to install from; WARPFOLD_DEVICE as for tests/e2e.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests/e2e"))
_EXAMPLES = _ROOT / "client/examples"


def run(*command: str | pathlib.Path, **options) -> str:
    """Returns standard output; if the command fails, the test fails with everything that was printed."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="warpfold_install_")))
        cls.folder, cls.prefix = folder, folder / "prefix"
        run("cmake", "--install", os.environ["WARPFOLD_BUILD"], "--prefix", cls.prefix)
        # A copy outside the project: nothing may come from beside it.
        shutil.copytree(_EXAMPLES, folder / "examples")
        build = folder / "build"
        run("cmake", "-G", "Ninja", "-S", folder / "examples", "-B", build,
            f"-DCMAKE_PREFIX_PATH={cls.prefix}")
        run("cmake", "--build", build, "--parallel", "2")
        os.environ["WARPFOLD_SERVER"] = str(cls.prefix / "bin/warpfold-server")
        os.environ["WARPFOLD_CLI"] = str(cls.prefix / "bin/warpfold")
        import executables  # reads the environment
        cls.server = cls.enterClassContext(executables.Server(
            "--resident_bytes=1048576", f"--memory_socket={folder}/memory"))

    def example(self, name: str, *arguments: str, **options) -> str:
        return run(self.folder / "build" / name, self.server.address, *arguments, **options)

    def pkg_config(self, *arguments: str) -> list[str]:
        (file,) = self.prefix.rglob("warpfold.pc")
        return run("pkg-config", *arguments, "warpfold",
                   env={**os.environ, "PKG_CONFIG_PATH": str(file.parent)}).split()

    def test_every_example_is_built(self):
        built = {path.stem for path in _EXAMPLES.glob("*.cc")}
        for name in built:
            self.assertTrue((self.folder / "build" / name).is_file(), name)
        self.assertEqual(built, {name.removeprefix("test_example_") for name in dir(self)
                                 if name.startswith("test_example_")})

    def test_example_sum(self):
        self.assertEqual(self.example("sum"), "14\n")

    def test_example_several_operators(self):
        self.assertEqual(self.example("several_operators"),
                         "mean 2\nargmax 8 at 1\nmatrix_product 3 2 2 1\nOUT_OF_RANGE OVERFLOW\n")

    def test_example_rows(self):
        self.assertEqual(self.example("rows"), "row 0: 1 to 4\nrow 1: 1 to 9\nrow 2: 2 to 6\n")

    def test_example_rows_in_memory(self):
        self.assertEqual(self.example("rows_in_memory", f"{self.folder}/memory"),
                         "1000 means, the last of them 999\n")

    def test_example_kept_array(self):
        self.assertEqual(self.example("kept_array"), "499500\n94950\n")

    def test_example_shared_memory(self):
        self.assertEqual(self.example("shared_memory", f"{self.folder}/memory"), "500000\n")

    def test_example_standard_input(self):
        values = b"".join(value.to_bytes(4, "little") for value in range(5000))
        with tempfile.TemporaryFile() as file:
            file.write(values)
            file.seek(0)
            self.assertEqual(self.example("standard_input", stdin=file), "12497500\n")

    def test_an_example_that_cannot_read_has_no_sum(self):
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        done = subprocess.run([self.folder / "build/standard_input", self.server.address], stdin=folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("Is a directory", done.stderr)

    def test_an_example_says_why_it_failed(self):
        done = subprocess.run([self.folder / "build/sum", "127.0.0.1:1"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("UNAVAILABLE", done.stderr)
        # A reason is a word, and not the escaped bytes of a message.
        done = subprocess.run([self.folder / "build/standard_input", self.server.address], input="abc",
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (
            1, "DATA_LOSS (COUNT_MISMATCH): the array ends inside element 0 of 4 bytes\n"))

    def test_reasons_have_names(self):
        source = "#include <warpfold/error.h>\nstatic_assert(*warpfold::reason::kOverflow == 'O');\n"
        run("g++", "-std=c++20", "-fsyntax-only", *self.pkg_config("--cflags"), "-x", "c++", "-",
            input=source)

    def test_pkg_config(self):
        program = self.folder / "by_pkg_config"
        run("g++", "-std=c++20", _EXAMPLES / "sum.cc", "-o", program, *self.pkg_config("--cflags", "--libs"))
        self.assertEqual(run(program, self.server.address), "14\n")
        version = re.findall(r"project\(warpfold VERSION (\S+)", (_ROOT / "CMakeLists.txt").read_text())
        self.assertEqual(self.pkg_config("--modversion"), version)

    def test_headers_compile_alone(self):
        headers = sorted(path.name for path in (self.prefix / "include/warpfold").glob("*.h"))
        self.assertIn("client.h", headers)
        flags = self.pkg_config("--cflags")
        for header in headers:
            # As strict as a careful user: warnings about the headers would trouble the user.
            run("g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, "-x", "c++", "-",
                input=f"#include <warpfold/{header}>\n")

    def test_no_internal_header_is_needed(self):
        """Nor is any installed: each header includes only installed, packaged or standard ones."""
        for path in (self.prefix / "include/warpfold").glob("*.h"):
            for header in re.findall(r'#include "([^"]*)"', path.read_text()):
                if header.startswith("absl/"):
                    continue
                self.assertTrue((self.prefix / "include" / header).is_file(), f"{path.name} needs {header}")

    def test_protocol(self):
        include = self.prefix / "include"
        run("protoc", f"-I{include}", f"--descriptor_set_out={self.folder}/set",
            *(path.relative_to(include) for path in sorted(include.rglob("*.proto"))), cwd=include)

    def test_readme_shows_the_example(self):
        (block,) = re.findall(r"```cpp\n(.*?)```", (_ROOT / "README.md").read_text(), re.DOTALL)
        example = (_EXAMPLES / "sum.cc").read_text()
        self.assertEqual(block, example[example.index("#include"):],
                         "Remedy: copy client/examples/sum.cc from its first #include on into README.md.")

    def test_no_path_of_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.suffix in (".cmake", ".pc", ".h"):
                self.assertNotIn(str(_ROOT), path.read_text(), path.name)


if __name__ == "__main__":
    unittest.main()
