# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the copyright notices and licences of what a build's executables are made of to standard output.

  notices.py BUILD

BUILD is as for sbom.py, and so is what counts as linked into the executables. Debian's packages have their
notices in /usr/share/doc, where licences that many have are only named: their texts follow at the end.
"""

import pathlib
import re
import sys

import sbom

_DOCUMENTS = pathlib.Path("/usr/share/doc")
_LICENCES = pathlib.Path("/usr/share/common-licenses")
_LINE = "=" * 100 + "\n"


def section(title: str, text: str) -> str:
    return f"{_LINE}{title}\n{_LINE}\n{text.strip()}\n\n"


def notices(build: str) -> str:
    packages_of = {}  # by the text that they share
    linked = sbom.installed(sbom.packages_of(sbom.archives(build) | sbom.headers(build)))
    for name in sorted({fields["Package"].partition(":")[0] for fields in linked}):
        text = (_DOCUMENTS / name / "copyright").read_text(encoding="utf-8", errors="replace")
        packages_of.setdefault(text, []).append(name)
    out = "Warpfold's executables contain parts of these packages, under the terms that follow.\n\n"
    out += "".join(section(", ".join(names), text) for text, names in packages_of.items())
    named = set(re.findall(rf"{_LICENCES}/([A-Za-z0-9.-]*[A-Za-z0-9])", out))
    return out + "".join(section(str(_LICENCES / name), (_LICENCES / name).read_text(encoding="utf-8"))
                         for name in sorted(named) if (_LICENCES / name).is_file())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(notices(sys.argv[1]))
