# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The first calls of docs/calling.md in Go and Java, generated, compiled and run as that page says.

    calling_test.py go|java FOLDER

FOLDER keeps what Go has compiled from one run to the next. Exits with 77, and says so, if the packages of
`deploy/install_packages.sh languages` are not installed. Environment: WARPFOLD_SERVER.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from service import Server

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_SKIPPED = 77
_JARS = (
    "protobuf guava grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite grpc-stub "
    "perfmark-api netty-common netty-buffer netty-transport netty-transport-native-unix-common netty-handler "
    "netty-codec netty-codec-http netty-codec-http2 netty-codec-socks netty-resolver netty-handler-proxy "
    "geronimo-annotation-1.3-spec"
).split()


def run(*command: object, **options) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def shown(language: str) -> str:
    page = (_ROOT / "docs/calling.md").read_text(encoding="utf-8")
    return re.search(rf"```{language}\n(.*?)```", page, re.DOTALL).group(1)


def protoc(*flags: object) -> None:
    run("protoc", f"-I{_ROOT / 'proto'}", *flags, "warpfold/v1/reduction.proto")


def needs(*paths: pathlib.Path | None) -> None:
    if any(path is None or not pathlib.Path(path).exists() for path in paths):
        print("skipped: the packages of `deploy/install_packages.sh languages` are not installed")
        sys.exit(_SKIPPED)


def call_from_go(folder: pathlib.Path, cache: pathlib.Path, address: str) -> str:
    packages = pathlib.Path("/usr/share/gocode")
    needs(
        *map(shutil.which, ("go", "protoc-gen-go", "protoc-gen-go-grpc")),
        packages / "src/google.golang.org/grpc",
        packages / "src/google.golang.org/protobuf",
    )
    (folder / "main.go").write_text(shown("go").replace("127.0.0.1:50051", address), encoding="utf-8")
    # Everything that `go mod tidy` would fetch is there, in Debian's packages.
    (folder / "vendor").mkdir()
    for place in (packages / "src").iterdir():
        (folder / "vendor" / place.name).symlink_to(place)
    commands = shown("sh").replace("go mod tidy\n", "")
    environment = {
        **os.environ,
        "WARPFOLD": str(_ROOT),
        "GOPATH": str(folder / "path"),
        "GOCACHE": str(cache),
        "GOPROXY": "off",
        "GOFLAGS": "-p=1",
    }
    return run("sh", "-ec", commands, cwd=folder, env=environment)


def call_from_java(folder: pathlib.Path, address: str) -> str:
    jars = [pathlib.Path(f"/usr/share/java/{name}.jar") for name in _JARS]
    needs(*map(shutil.which, ("javac", "java", "grpc_java_plugin")), *jars)
    (folder / "First.java").write_text(shown("java").replace("127.0.0.1:50051", address), encoding="utf-8")
    protoc(
        f"--java_out={folder}",
        f"--grpc-java_out={folder}",
        f"--plugin=protoc-gen-grpc-java={shutil.which('grpc_java_plugin')}",
    )
    path = ":".join(map(str, [folder, *jars]))
    run(
        "javac",
        "-nowarn",
        "-cp",
        path,
        "-d",
        folder,
        folder / "First.java",
        *folder.glob("warpfold/v1/*.java"),
    )
    return run("java", "-cp", path, "First")


def main() -> None:
    language, kept = sys.argv[1], pathlib.Path(sys.argv[2])
    server = Server()
    try:
        with tempfile.TemporaryDirectory(prefix="warpfold_calling_") as name:
            folder = pathlib.Path(name)
            printed = (
                call_from_go(folder, kept / "go-cache", server.address)
                if language == "go"
                else call_from_java(folder, server.address)
            )
    finally:
        server.stop()
    values = dict(line.split() for line in printed.splitlines())
    if {name: float(value) for name, value in values.items()} != {"OPERATOR_SUM": 6, "OPERATOR_MAX": 4}:
        sys.exit(f"unexpected: {printed!r}")
    print(f"{language}: {values}")


if __name__ == "__main__":
    main()
