# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The objects that were compiled for an instruction set define nothing that others may share.

If several objects define an inline function, the linker keeps any one of them. If that were one compiled for
AVX2, a machine without AVX2 would end with SIGILL, in a function that has nothing to do with reductions.

Environment: WARPFOLD_ISA_OBJECTS, the folders of these objects, one for each set, separated by colons.
"""

import os
import pathlib
import re
import subprocess
import unittest

_SHARED = re.compile(r" [VWu] (\S+)$", re.MULTILINE)  # weak, or unique among all objects


def shared_by_all(folder: pathlib.Path, isa: str) -> list[str]:
    """The names that objects define for others, too, and that are in no namespace of this instruction set."""
    objects = [str(path) for path in sorted(folder.rglob("*.o"))]
    done = subprocess.run(["nm", "--defined-only", *objects], capture_output=True, text=True, check=True)
    return sorted({name for name in _SHARED.findall(done.stdout) if f"{len(isa)}{isa}" not in name})


class IsaTest(unittest.TestCase):
    def test_nothing_is_shared(self):
        for folder in map(pathlib.Path, os.environ["WARPFOLD_ISA_OBJECTS"].split(":")):
            isa = folder.name.removeprefix("warpfold_cpu_").removesuffix(".dir")
            with self.subTest(isa):
                self.assertTrue(list(folder.rglob("*.o")))
                self.assertEqual(shared_by_all(folder, isa), [])


if __name__ == "__main__":
    unittest.main()
