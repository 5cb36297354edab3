# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Rooms and arrows: server -> kernels, server -> proto, client -> proto, and nothing back. All may include
what proto/ says in plain C++; what is generated from its messages is for server and client.

Reads every #include. Each rule is a function from includes to complaints, so that the tests can also
show it a tree that breaks the rule.
"""

import os
import re
import unittest
from typing import Callable, Iterable

import tree
from tree import Include

# What each room may include from the others.
_ROOM_MAY_INCLUDE = {
    "proto": {"proto"},
    "kernels": {"kernels", "proto"},
    "server": {"server", "kernels", "proto", "messages"},
    "client": {"client", "proto", "messages"},
    "tests": {"tests", "server", "client", "kernels", "proto", "messages"},
}
# The rooms within the server's core and within the client, from the bottom up: what each may include from
# those beside it. The core's own folder has what all of its rooms use, and the client's has the API.
_CORE, _CLIENT = "server/core", "client"
_INNER_ROOM_MAY_INCLUDE = {
    f"{_CORE}": {""},
    f"{_CORE}/references": {"", "references"},
    f"{_CORE}/wire": {"", "references", "wire"},
    f"{_CORE}/admission": {"", "admission"},
    f"{_CORE}/slots": {"", "references", "wire", "slots"},
    f"{_CORE}/calls": {"", "references", "wire", "admission", "slots", "calls"},
    f"{_CLIENT}": {"", "connections", "calls"},
    f"{_CLIENT}/connections": {"", "connections"},
    f"{_CLIENT}/calls": {"", "connections", "calls"},
    f"{_CLIENT}/cli": {"", "connections", "calls", "cli", "cli/bench"},
    f"{_CLIENT}/cli/bench": {"", "connections", "calls", "cli", "cli/bench"},
    f"{_CLIENT}/examples": {""},
    f"{_CLIENT}/python/native": {"", "connections", "calls", "python/native"},
}
# Rooms of tests are named after what they test. The simulation drives all of the server's core.
_TESTED_ROOMS = ("server", "client", "proto")
_OTHER_TESTS = {"tests/server/simulation"}
_GRPC_ROOMS = ("server", "client", "tests")
# The messages of the standard services are plain protobuf, generated from proto/grpc.
_GRPC = re.compile(r"^(grpc(?!/(health|reflection)/\w+/\w+\.pb\.h$)|grpcpp|grpc\+\+)/|\.grpc\.pb\.h$")
_CUDA = re.compile(r"^(cuda|cub|thrust|nv|nvtx3|cooperative_groups)(/|_|\.h)|^(driver|vector)_types\.h$")
# Statuses are common to all of the server; the content of these headers is not yet the domain.
_NOT_THE_DOMAIN = {"kernels/error.h"}


def room_of(header: str) -> str | None:
    """The room to which a header belongs, or None for one that is not ours."""
    if header.startswith(("warpfold/v1/", "google/rpc/", "grpc/health/v1/", "grpc/reflection/")):
        return "messages"  # generated
    room = header.split("/", 1)[0]
    return room if room in _ROOM_MAY_INCLUDE else None


def arrow_complaints(includes: list[Include]) -> list[str]:
    complaints = []
    for path, line, header in includes:
        room, target = path.split("/", 1)[0], room_of(header)
        if target and target not in _ROOM_MAY_INCLUDE.get(room, {target}):
            complaints.append(
                f"{path}:{line} includes {header}, but {room}/ may include only "
                f"{', '.join(sorted(_ROOM_MAY_INCLUDE[room]))}. Remedy: move what both need down the arrows, "
                "or pass it in as an argument.")
    return complaints


def inner_complaints(includes: list[Include]) -> list[str]:
    complaints = []
    for path, line, header in includes:
        house = _CORE if path.startswith(f"{_CORE}/") else _CLIENT
        if not (path.startswith(f"{house}/") and header.startswith(f"{house}/")):
            continue
        room, target = os.path.dirname(path), os.path.dirname(header)[len(house) + 1:]
        if target not in _INNER_ROOM_MAY_INCLUDE.get(room, set()):
            complaints.append(f"{path}:{line} includes {header}, but {room}/ may not (docs/ARCHITECTURE.md). "
                              "Remedy: move what both need down, or pass it in as an argument.")
    return complaints


def grpc_complaints(includes: list[Include]) -> list[str]:
    return [
        f"{i.path}:{i.line} includes {i.header}: only {', '.join(_GRPC_ROOMS)} know gRPC. "
        "Remedy: return an absl::Status or plain data, and let server/ or client/ translate."
        for i in includes if _GRPC.search(i.header) and i.path.split("/", 1)[0] not in _GRPC_ROOMS]


def may_use_cuda(path: str) -> bool:
    return path.startswith("kernels/cuda/") or (path.startswith("tests/") and
                                                 bool(re.search(r"gpu|cuda|\.cuh?$", path)))


def cuda_complaints(includes: list[Include]) -> list[str]:
    return [
        f"{i.path}:{i.line} includes {i.header}: the CUDA runtime stays in kernels/cuda/ and in GPU tests. "
        "Remedy: go through kernels/backend.h."
        for i in includes if _CUDA.search(i.header) and not may_use_cuda(i.path)]


def translators(includes: list[Include]) -> list[str]:
    """The server's translation units (a .cc with its own header) that include both gRPC and the domain."""
    grpc, domain = set(), set()
    for path, _, header in includes:
        if not path.startswith("server/"):
            continue
        unit = os.path.splitext(path)[0]
        if _GRPC.search(header):
            grpc.add(unit)
        if room_of(header) == "kernels" and header not in _NOT_THE_DOMAIN:
            domain.add(unit)
    return sorted(grpc & domain)


def tested_room_complaints(paths: Iterable[str], is_folder: Callable[[str], bool]) -> list[str]:
    folders = {os.path.dirname(path) for path in paths
               if path.startswith(tuple(f"tests/{room}/" for room in _TESTED_ROOMS))}
    return [f"{folder} has the name of no room. Remedy: put its tests into the room of what they test."
            for folder in sorted(folders - _OTHER_TESTS) if not is_folder(folder.removeprefix("tests/"))]


def path_complaints(includes: list[Include], exists) -> list[str]:
    """Our own headers are named from the root, never relative to the including file."""
    complaints = []
    for path, line, header in includes:
        beside = os.path.normpath(os.path.join(os.path.dirname(path), header))
        if ".." in header.split("/") or (not exists(header) and exists(beside)):
            complaints.append(f'{path}:{line} includes {header}. Remedy: write "{beside}".')
    return complaints


class LayeringTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.includes = tree.all_includes()

    def assert_none(self, complaints: list[str]):
        if complaints:
            self.fail("\n" + "\n".join(complaints))

    def test_the_tree_was_read(self):
        self.assertTrue(any(i.path.startswith("kernels/") for i in self.includes))

    def test_arrows_between_rooms(self):
        self.assert_none(arrow_complaints(self.includes))

    def test_rooms_within_the_core_and_the_client(self):
        self.assertTrue({os.path.dirname(i.path) for i in self.includes} >= set(_INNER_ROOM_MAY_INCLUDE))
        self.assert_none(inner_complaints(self.includes))

    def test_tests_are_in_the_rooms_of_what_they_test(self):
        self.assert_none(tested_room_complaints(tree.cxx_files(), lambda path: (tree.ROOT / path).is_dir()))

    def test_grpc_stays_in_its_rooms(self):
        self.assert_none(grpc_complaints(self.includes))

    def test_cuda_stays_in_its_room(self):
        self.assert_none(cuda_complaints(self.includes))

    def test_one_translation_unit_knows_grpc_and_the_domain(self):
        units = translators(self.includes)
        self.assertLessEqual(
            len(units), 1, f"\nBoth gRPC and kernels/ are included by {', '.join(units)}. Remedy: keep the "
            "translation between the two in one of them; give the others plain types.")

    def test_headers_are_named_from_the_root(self):
        self.assert_none(path_complaints(self.includes, lambda path: (tree.ROOT / path).is_file()))


class RulesCatchBreakersTest(unittest.TestCase):
    """The rules themselves, on includes that break them."""

    def test_arrows(self):
        self.assertEqual(len(arrow_complaints([Include("kernels/a.cc", 1, "server/b.h"),
                                               Include("client/a.cc", 1, "kernels/b.h"),
                                               Include("proto/a.h", 1, "client/b.h"),
                                               Include("proto/a.h", 2, "warpfold/v1/reduction.pb.h"),
                                               Include("kernels/a.cc", 2, "warpfold/v1/reduction.pb.h")])), 5)
        self.assertEqual(arrow_complaints([Include("server/a.cc", 1, "kernels/b.h"),
                                           Include("tests/x/a.cc", 1, "client/b.h"),
                                           Include("client/a.cc", 1, "warpfold/v1/reduction.pb.h"),
                                           Include("kernels/a.cc", 1, "proto/leaf.h"),
                                           Include("kernels/a.cc", 1, "absl/status/status.h")]), [])

    def test_rooms_within_the_core_and_the_client(self):
        self.assertEqual(len(inner_complaints([Include("server/core/clock.h", 1, "server/core/wire/b.h"),
                                               Include("server/core/slots/a.cc", 1, "server/core/calls/b.h"),
                                               Include("server/core/wire/a.h", 1, "server/core/slots/b.h"),
                                               Include("server/core/new/a.h", 1, "server/core/clock.h"),
                                               Include("client/connections/a.h", 1, "client/calls/b.h"),
                                               Include("client/examples/a.cc", 1, "client/calls/b.h"),
                                               Include("client/client.cc", 1, "client/cli/b.h")])), 7)
        self.assertEqual(inner_complaints([Include("server/core/calls/a.cc", 1, "server/core/slots/b.h"),
                                           Include("server/core/wire/a.h", 1, "server/core/limits.h"),
                                           Include("server/rpc/a.h", 1, "server/core/calls/b.h"),
                                           Include("client/client.cc", 1, "client/calls/b.h"),
                                           Include("tests/client/a.cc", 1, "client/calls/b.h")]), [])

    def test_rooms_of_tests(self):
        is_folder = {"server", "server/core/calls", "client"}.__contains__
        self.assertEqual(tested_room_complaints(["tests/server/a_test.cc", "tests/server/core/calls/b.h",
                                               "tests/client/c.cc", "tests/server/simulation/d.cc",
                                               "tests/gpu/e.cc"], is_folder), [])
        self.assertEqual(len(tested_room_complaints(["tests/server/calls/a_test.cc", "tests/client/x/b.cc"],
                                                  is_folder)), 2)

    def test_grpc(self):
        self.assertEqual(len(grpc_complaints([Include("kernels/a.h", 1, "grpcpp/grpcpp.h"),
                                              Include("proto/a.h", 1, "warpfold/v1/reduction.grpc.pb.h"),
                                              Include("server/a.h", 1, "grpcpp/grpcpp.h")])), 2)

    def test_cuda(self):
        self.assertEqual(len(cuda_complaints([Include("kernels/a.cc", 1, "cuda_runtime.h"),
                                              Include("server/a.cc", 1, "cub/cub.cuh"),
                                              Include("kernels/cuda/a.cu", 1, "cuda_runtime.h"),
                                              Include("tests/gpu/a.cc", 1, "cuda_runtime_api.h")])), 2)

    def test_translators(self):
        includes = [Include("server/a.cc", 1, "grpcpp/server.h"),
                    Include("server/a.h", 1, "kernels/backend.h"),
                    Include("server/b.cc", 1, "grpcpp/server.h"),
                    Include("server/b.cc", 2, "kernels/error.h")]
        self.assertEqual(translators(includes), ["server/a"])

    def test_paths(self):
        exists = {"server/b.h"}.__contains__
        self.assertEqual(len(path_complaints([Include("server/a.cc", 1, "b.h"),
                                              Include("tests/a.cc", 1, "../server/b.h"),
                                              Include("server/a.cc", 2, "server/b.h")], exists)), 2)


if __name__ == "__main__":
    unittest.main()
