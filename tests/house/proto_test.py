# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The API's protos follow buf's STANDARD rules, and break no client of the last release.

Until there is one, the frozen set is the candidate of v1 (freeze_protos.py).
"""

import re
import unittest

import protos
from google.protobuf import descriptor_pb2 as pb


def _complaints(change) -> list[str]:
    """The complaints about the current protos after a change to them."""
    old = protos.compile_tree()
    new = pb.FileDescriptorSet.FromString(old.SerializeToString())
    change({file.name.rsplit("/", 1)[1]: file for file in new.file})
    return list(protos.breaking(old, new))


def _find(things, name: str):
    return next(thing for thing in things if thing.name == name)


def _text(path: str) -> str:
    return (protos.ROOT / path).read_text(encoding="utf-8")


class ProtoTest(unittest.TestCase):
    maxDiff = None

    def test_libraries_know_the_element_types_of_the_api(self):
        enum = _find([e for file in protos.compile_tree().file for e in file.enum_type], "ElementType")
        names = {value.name.removeprefix("ELEMENT_TYPE_").lower() for value in enum.value if value.number}
        in_python = _text("client/python/warpfold/element_types.py").split("frozenset({")[1].split("})")[0]
        in_cpp = _text("proto/element_type.h").split("kElementTypes[kElementTypeCount] = {")[1].split("};")[0]
        self.assertEqual(set(re.findall(r'"(\w+)"', in_python)), names)
        self.assertEqual(set(re.findall(r'"(\w+)"', in_cpp)), names)

    def test_python_names_reasons_that_errors_have(self):
        reasons = set(re.findall(r'"([A-Z_]+)"', _text("proto/error_reasons.h")))
        asked = {reason for path in (protos.ROOT / "client/python/warpfold").glob("*.py")
                 for line in _text(str(path)).splitlines() if "reason" in line
                 for reason in re.findall(r'"([A-Z]+(?:_[A-Z]+)*)"', line)}
        self.assertIn("TOO_MANY_REDUCTIONS", asked)
        self.assertEqual(asked - reasons, set())

    def test_names_follow_the_rules(self):
        current = protos.compile_tree()
        self.assertTrue(current.file)
        self.assertEqual([complaint for file in current.file for complaint in protos.lint(file)], [])

    def test_no_client_of_the_last_release_breaks(self):
        released = pb.FileDescriptorSet.FromString(protos.RELEASED.read_bytes())
        self.assertTrue(released.file)
        self.assertEqual(
            list(protos.breaking(released, protos.compile_tree())), [],
            "Remedy: leave what was released as it is, and add beside it; reserve what is to go.")


class ReasonsTest(unittest.TestCase):
    header = (protos.ROOT / "proto/error_reasons.h").read_text()

    def test_the_header_has_each_reason_of_the_api(self):
        api = (protos.ROOT / "proto/warpfold/v1/reduction.proto").read_text()
        listed = api.split(" Reasons:\n", maxsplit=1)[1]
        self.assertIn("Messages compressed", listed)
        listed = listed.split("Messages compressed")[0]
        codes = {"INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND", "DATA_LOSS", "RESOURCE_EXHAUSTED",
                 "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "UNAVAILABLE", "UNIMPLEMENTED", "INTERNAL"}
        # Columns are two blanks or more apart.
        rows = [re.split(r" {2,}", line.removeprefix("//")) for line in listed.splitlines()]
        documented = {cell for row in rows for cell in row if re.fullmatch("[A-Z_]{4,}", cell)} - codes
        self.assertIn("NO_COMMIT", documented)
        segments = (protos.ROOT / "proto/warpfold/v1/segments.proto").read_text()
        own = {row[1] for line in segments.splitlines()
               if len(row := re.findall(r"\b[A-Z_]{4,}\b", line)) >= 2 and row[0] in codes}
        self.assertIn("BAD_LENGTHS", own)
        documented |= own
        of_calls = self.header.split("All of these.")[0]
        self.assertEqual(set(re.findall(r'"([A-Z_]+)"', of_calls)), documented)
        # kOfCalls, which metrics use as labels, names all of them.
        listed = self.header.split("kOfCalls[] = {")[1].split("}")[0]
        self.assertEqual(re.findall(r"k\w+", listed), re.findall(r"char (k\w+)\[\]", of_calls))

    def test_nobody_spells_a_reason(self):
        reasons = "|".join(re.findall(r'"([A-Z_]+)"', self.header))
        spelled = [f"{path.relative_to(protos.ROOT)}: {match.group()}"
                   for room in ("kernels", "server", "client")
                   for path in sorted((protos.ROOT / room).rglob("*"))
                   if path.suffix in (".h", ".cc", ".cu", ".cuh")
                   for match in re.finditer(f'^[^/\n]*"(?:{reasons})"', path.read_text(), re.MULTILINE)]
        self.assertEqual(spelled, [], "Remedy: name it by its constant in proto/error_reasons.h.")


class RulesCatchBreakersTest(unittest.TestCase):
    """The rules themselves, on protos that break them."""

    def test_lint(self):
        file = pb.FileDescriptorProto(name="warpfold/v1/Bad.proto", package="warpfold", syntax="proto2")
        message = file.message_type.add(name="bad_message")
        message.field.add(name="BadField", number=1, label=2)
        message.oneof_decl.add(name="BadOneof")
        enum = file.enum_type.add(name="bad")
        enum.options.allow_alias = True
        enum.value.add(name="Ok", number=1)
        enum.value.add(name="BAD_NONE", number=0)
        service = file.service.add(name="reducer")
        service.method.add(name="do", input_type=".warpfold.X", output_type=".warpfold.X")
        rules = " ".join(protos.lint(file))
        for rule in ("PACKAGE_DIRECTORY_MATCH", "PACKAGE_VERSION_SUFFIX", "FILE_LOWER_SNAKE_CASE", "SYNTAX",
                     "MESSAGE_PASCAL_CASE", "FIELD_LOWER_SNAKE_CASE", "FIELD_NOT_REQUIRED",
                     "ONEOF_LOWER_SNAKE_CASE", "ENUM_PASCAL_CASE", "ENUM_NO_ALLOW_ALIAS",
                     "ENUM_VALUE_UPPER_SNAKE_CASE", "ENUM_VALUE_PREFIX", "ENUM_ZERO_VALUE_SUFFIX",
                     "ENUM_FIRST_VALUE_ZERO", "SERVICE_PASCAL_CASE", "SERVICE_SUFFIX", "RPC_PASCAL_CASE",
                     "RPC_REQUEST_STANDARD_NAME", "RPC_RESPONSE_STANDARD_NAME"):
            self.assertIn(rule, rules)
        self.assertEqual(protos.upper_snake("ElementType"), "ELEMENT_TYPE")
        self.assertEqual(protos.upper_snake("HTTPCode2"), "HTTP_CODE2")

    def test_changes_that_break(self):
        def field(files, **changes):
            chunk = _find(files["reduction.proto"].message_type, "ReduceChunk")
            for name, value in changes.items():
                setattr(chunk.field[0], name, value)

        def method_of(files):
            return files["reduction.proto"].service[0].method[0]

        api, arrays = "reduction.proto", "arrays.proto"
        for rule, change in (
                ("MESSAGE_NO_DELETE", lambda files: files[api].message_type.pop()),
                ("FIELD_NO_DELETE", lambda files: _find(files[api].message_type, "ReduceChunk").field.pop()),
                ("FIELD_NO_DELETE", lambda files: field(files, number=99)),
                ("FIELD_SAME_NAME", lambda files: field(files, name="other")),
                ("FIELD_SAME_JSON_NAME", lambda files: field(files, json_name="other")),
                ("FIELD_SAME_TYPE", lambda files: field(files, type=9)),
                ("FIELD_SAME_LABEL", lambda files: field(files, label=3)),
                ("ENUM_NO_DELETE", lambda files: files[api].enum_type.pop()),
                ("ENUM_VALUE_NO_DELETE", lambda files: files[api].enum_type[0].value.pop()),
                ("SERVICE_NO_DELETE", lambda files: files[api].service.pop()),
                ("RPC_NO_DELETE", lambda files: files[api].service[0].method.pop()),
                ("RPC_SAME", lambda files: setattr(method_of(files), "server_streaming", True)),
                ("FILE_SAME_PACKAGE", lambda files: setattr(files[arrays], "package", "warpfold.v2")),
                ("FILE_NO_DELETE", lambda files: setattr(files[arrays], "name", "warpfold/v1/moved.proto"))):
            with self.subTest(rule):
                self.assertIn(rule, " ".join(_complaints(change)))

    def test_a_oneof_and_what_is_reserved_stay(self):
        old = pb.FileDescriptorSet()
        message = old.file.add(name="a.proto", package="a").message_type.add(name="A")
        message.oneof_decl.add(name="first")
        message.field.add(name="b", number=1, oneof_index=0)
        message.reserved_range.add(start=5, end=6)
        new = pb.FileDescriptorSet.FromString(old.SerializeToString())
        changed = new.file[0].message_type[0]
        changed.field[0].ClearField("oneof_index")
        changed.reserved_range.pop()
        self.assertEqual(list(protos.breaking(old, new)),
                         ["a.A.b: FIELD_SAME_ONEOF", "a.A: RESERVED_NO_DELETE"])

    def test_additions_break_nothing(self):
        def add(files):
            files["reduction.proto"].message_type.add(name="New")
            _find(files["reduction.proto"].message_type, "ReduceChunk").field.add(name="new", number=99)
            files["reduction.proto"].service[0].method.add(name="New")
            files["reduction.proto"].enum_type[0].value.add(name="NEW", number=99)
        self.assertEqual(_complaints(add), [])


if __name__ == "__main__":
    unittest.main()
