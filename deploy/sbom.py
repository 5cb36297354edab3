# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the software bill of materials of an image, as SPDX 2.3 in JSON, to standard output.

  sbom.py BUILD BASE_STATUS BASE_NAME VERSION

BUILD is a configured and built folder of CMake's Ninja generator, without tests, on a machine whose files
belong to Debian packages. The packages listed as linked into the executables are those from which they were
made: those of the archives that the linker was given, and of the headers that the compiler read. BASE_STATUS
is the file /var/lib/dpkg/status of the base image BASE_NAME.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

_EXECUTABLES = ("bin/warpfold-server", "bin/warpfold")
_NAMESPACE = "https://spdx.org/spdxdocs/warpfold"


def ninja(build: str, *arguments: str) -> str:
    return subprocess.run(["ninja", "-C", build, *arguments], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def archives(build: str) -> set[str]:
    """The archives that the linker was given for an executable, with absolute paths, so not the project's
    own."""
    text = "".join(ninja(build, "-t", "commands", "-s", executable) for executable in _EXECUTABLES)
    return set(re.findall(r"(?<=\s)(/\S+\.a)(?=\s)", text))


def headers(build: str) -> set[str]:
    return set(re.findall(r"^    (/\S+)$", ninja(build, "-t", "deps"), re.MULTILINE))


def packages_of(paths: set[str]) -> set[str]:
    """The Debian packages that own the files; files that no package owns are the compiler's own, or ours."""
    real = sorted({os.path.realpath(path) for path in paths} | paths)
    done = subprocess.run(["dpkg-query", "--search", *real], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return {name.strip() for line in done.stdout.splitlines() if not line.startswith("diversion")
            for name in line.rpartition(": ")[0].split(",")}


def installed(names: set[str]) -> list[dict[str, str]]:
    text = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${binary:Package} ${Version} ${source:Package}\\n",
         *sorted(names)], check=True, text=True, stdout=subprocess.PIPE).stdout
    return [dict(zip(("Package", "Version", "Source"), line.split())) for line in text.splitlines()]


def paragraphs(status: str) -> list[dict[str, str]]:
    """The packages that a dpkg status file lists as installed."""
    found = []
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found.append(fields)
    return found


def distribution() -> str:
    return dict(line.split("=", 1) for line in
                pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)["ID"].strip('"')


def package(identifier: str, name: str, version: str, **fields) -> dict:
    return {"SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION", "filesAnalyzed": False, **fields}


def debian_package(kind: str, fields: dict[str, str], vendor: str) -> dict:
    name, version = fields["Package"].partition(":")[0], fields["Version"]
    identifier = f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
    locator = f"pkg:deb/{vendor}/{name}@{version}".replace("+", "%2B")
    return package(identifier, name, version, externalRefs=[
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}])


def document(build: str, status: str, base_name: str, version: str) -> dict:
    vendor = distribution()
    ours = package("SPDXRef-warpfold", "warpfold", version, licenseConcluded="Apache-2.0",
                   licenseDeclared="Apache-2.0", copyrightText="The Warpfold Authors",
                   primaryPackagePurpose="APPLICATION")
    base = package("SPDXRef-base", base_name, "NOASSERTION", primaryPackagePurpose="CONTAINER")
    linked = [debian_package("linked", fields, vendor)
              for fields in installed(packages_of(archives(build) | headers(build)))]
    beneath = [debian_package("base", fields, vendor) for fields in paragraphs(status)]
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-warpfold"),
                     ("SPDXRef-warpfold", "DEPENDS_ON", "SPDXRef-base")]
    relationships += [("SPDXRef-warpfold", "STATIC_LINK", each["SPDXID"]) for each in linked]
    relationships += [("SPDXRef-base", "CONTAINS", each["SPDXID"]) for each in beneath]
    digest = hashlib.sha256(b"".join(
        (pathlib.Path(build) / executable).read_bytes() for executable in _EXECUTABLES)).hexdigest()
    # A build that names its time (SOURCE_DATE_EPOCH) gives the same document again.
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", datetime.datetime.now().timestamp()))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"warpfold-{version}", "documentNamespace": f"{_NAMESPACE}-{version}-{digest}",
            "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: warpfold-deploy-sbom.py"]},
            "packages": [ours, base, *linked, *beneath],
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                              for one, kind, other in relationships]}


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    made = document(sys.argv[1], pathlib.Path(sys.argv[2]).read_text(), sys.argv[3], sys.argv[4])
    json.dump(made, sys.stdout, indent=1)
    print()
