# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a build is valid SPDX, and contains what went into the executables and the base.
Also the notices of what went into the executables.

Runs in the environment that deploy/tools_environment.sh makes. Environment: WARPFOLD_BUILD, a built folder.
The container's test checks the bill of a real image.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

_SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/sbom.py"
_NOTICES = _SCRIPT.with_name("notices.py")
_STATUS = """Package: base-files
Status: install ok installed
Version: 12.4+deb12u9

Package: left-over
Status: deinstall ok config-files
Version: 1.0
"""


class SbomTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="warpfold_sbom_")))
        (cls.folder / "status").write_text(_STATUS)
        text = cls.write()
        cls.path = cls.folder / "sbom.spdx.json"
        cls.path.write_text(text)
        cls.document = json.loads(text)

    @classmethod
    def write(cls) -> str:
        return subprocess.run(
            [sys.executable, "-B", _SCRIPT, os.environ["WARPFOLD_BUILD"], cls.folder / "status", "debian:12",
             "0.1.0"], check=True, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}).stdout

    def packages(self, kind: str) -> dict[str, dict]:
        return {package["name"]: package for package in self.document["packages"]
                if package["SPDXID"].startswith(f"SPDXRef-{kind}-")}

    def test_valid(self):
        self.assertEqual(validate_full_spdx_document(parse_file(str(self.path))), [])

    def test_what_is_linked(self):
        linked = self.packages("linked")
        for name in ("libgrpc++-dev", "libprotobuf-dev", "libabsl-dev", "libcli11-dev"):
            self.assertIn(name, linked)
        query = ["dpkg-query", "--show", "--showformat=${Version}", "libgrpc++-dev"]
        done = subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True)
        self.assertEqual(linked["libgrpc++-dev"]["versionInfo"], done.stdout)

    def test_what_is_beneath(self):
        base = self.packages("base")
        self.assertEqual(set(base), {"base-files"})
        (reference,) = base["base-files"]["externalRefs"]
        self.assertRegex(reference["referenceLocator"], r"^pkg:deb/\w+/base-files@12\.4%2Bdeb12u9$")

    def test_the_same_again(self):
        self.assertEqual(self.write(), self.path.read_text())

    def test_notices(self):
        done = subprocess.run([sys.executable, "-B", _NOTICES, os.environ["WARPFOLD_BUILD"]], check=True,
                              stdout=subprocess.PIPE, text=True)
        for name in self.packages("linked"):
            self.assertRegex(done.stdout, rf"(?m)^([\w.+, -]*, )?{re.escape(name)}(,|$)")
        for text in ("Google LLC", "OpenSSL", "/usr/share/common-licenses/Apache-2.0\n",
                     "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"):
            self.assertIn(text, done.stdout)


if __name__ == "__main__":
    unittest.main()
