# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The API's protos as descriptors: rules for their names, and what may not change between two versions.

The rules are those that buf calls STANDARD, for lint, and FILE, for breaking changes, which includes what
breaks the wire (https://buf.build/docs/lint/rules, https://buf.build/docs/breaking/rules). buf is not
packaged. Rules for what these files do not use (optional files, editions, groups, extensions) are left out:
LintTest rejects such things as a whole.
"""

import pathlib
import re
import subprocess
import tempfile
from typing import Iterable, Iterator

from google.protobuf import descriptor_pb2 as pb

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASED = pathlib.Path(__file__).with_name("released_protos.binpb")

_PASCAL = re.compile(r"^[A-Z][A-Za-z0-9]*$")
_SNAKE = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
_UPPER = re.compile(r"^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$")
_Field = pb.FieldDescriptorProto
_File = pb.FileDescriptorProto


def compile_tree(folder: pathlib.Path = ROOT / "proto") -> pb.FileDescriptorSet:
    """Our own files, compiled by protoc; without comments."""
    files = sorted(str(path.relative_to(folder)) for path in folder.glob("warpfold/**/*.proto"))
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", f"-I{folder}", f"--descriptor_set_out={out.name}", *files], cwd=folder,
                       check=True)
        return pb.FileDescriptorSet.FromString(out.read())


def upper_snake(name: str) -> str:
    """ElementType becomes ELEMENT_TYPE, as in buf."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


def _messages(of, scope: str) -> Iterator[tuple[str, pb.DescriptorProto]]:
    for message in of:
        yield f"{scope}.{message.name}", message
        yield from _messages(message.nested_type, f"{scope}.{message.name}")


def messages_of(file: _File) -> dict[str, pb.DescriptorProto]:
    return dict(_messages(file.message_type, file.package))


def enums_of(file: _File) -> dict[str, pb.EnumDescriptorProto]:
    found = {f"{file.package}.{enum.name}": enum for enum in file.enum_type}
    for scope, message in messages_of(file).items():
        found.update({f"{scope}.{enum.name}": enum for enum in message.enum_type})
    return found


def lint(file: _File) -> Iterator[str]:
    """The complaints of buf's STANDARD rules about the file."""
    def check(name: str, good, rule: str) -> Iterator[str]:
        if not good:
            yield f"{file.name}: {name}: {rule}"

    folder = str(pathlib.PurePosixPath(file.name).parent)
    yield from check(file.package, file.package.replace(".", "/") == folder, "PACKAGE_DIRECTORY_MATCH")
    yield from check(file.package, re.search(r"\.v[1-9][0-9]*((alpha|beta)[0-9]*)?$", file.package),
                     "PACKAGE_VERSION_SUFFIX")
    yield from check(file.package, all(map(_SNAKE.match, file.package.split("."))),
                     "PACKAGE_LOWER_SNAKE_CASE")
    yield from check(file.name, _SNAKE.match(pathlib.PurePosixPath(file.name).stem), "FILE_LOWER_SNAKE_CASE")
    yield from check(file.name, file.syntax == "proto3", "SYNTAX_SPECIFIED, proto3")
    yield from check(file.name, not file.public_dependency and not file.weak_dependency, "IMPORT_NO_PUBLIC")
    yield from check(file.name, not file.extension, "extensions are not used here")
    for name, message in messages_of(file).items():
        is_map = message.options.map_entry
        yield from check(name, is_map or _PASCAL.match(message.name), "MESSAGE_PASCAL_CASE")
        for field in message.field:
            yield from check(f"{name}.{field.name}", _SNAKE.match(field.name), "FIELD_LOWER_SNAKE_CASE")
            yield from check(f"{name}.{field.name}", field.label != _Field.LABEL_REQUIRED,
                             "FIELD_NOT_REQUIRED")
        for oneof in message.oneof_decl:
            yield from check(f"{name}.{oneof.name}", _SNAKE.match(oneof.name.lstrip("_")),
                             "ONEOF_LOWER_SNAKE_CASE")
    for name, enum in enums_of(file).items():
        yield from check(name, _PASCAL.match(enum.name), "ENUM_PASCAL_CASE")
        yield from check(name, not enum.options.allow_alias, "ENUM_NO_ALLOW_ALIAS")
        prefix = upper_snake(enum.name) + "_"
        for value in enum.value:
            full = f"{name}.{value.name}"
            yield from check(full, _UPPER.match(value.name), "ENUM_VALUE_UPPER_SNAKE_CASE")
            yield from check(full, value.name.startswith(prefix), "ENUM_VALUE_PREFIX")
            yield from check(full, value.number or value.name == prefix + "UNSPECIFIED",
                             "ENUM_ZERO_VALUE_SUFFIX")
        yield from check(name, enum.value[0].number == 0, "ENUM_FIRST_VALUE_ZERO")
    yield from _lint_services(file, check)


def _lint_services(file: _File, check) -> Iterator[str]:
    for service in file.service:
        yield from check(service.name, _PASCAL.match(service.name), "SERVICE_PASCAL_CASE")
        yield from check(service.name, service.name.endswith("Service"), "SERVICE_SUFFIX")
        for method in service.method:
            full = f"{service.name}.{method.name}"
            yield from check(full, _PASCAL.match(method.name), "RPC_PASCAL_CASE")
            for suffix, kind in (("Request", method.input_type), ("Response", method.output_type)):
                wanted = {f".{file.package}.{who}{method.name}{suffix}" for who in ("", service.name)}
                yield from check(full, kind in wanted, f"RPC_{suffix.upper()}_STANDARD_NAME, and so _UNIQUE")


def breaking(old: pb.FileDescriptorSet, new: pb.FileDescriptorSet) -> Iterator[str]:
    """What would break clients built from `old` when they meet `new`."""
    there = {file.name: file for file in new.file}
    for file in old.file:
        if file.name not in there:
            yield f"{file.name}: FILE_NO_DELETE"
            continue
        now = there[file.name]
        if (file.package, file.syntax, file.options) != (now.package, now.syntax, now.options):
            yield f"{file.name}: FILE_SAME_PACKAGE, FILE_SAME_SYNTAX or an option of the file"
        for name, (message, current) in _pairs(messages_of(file), messages_of(now)):
            yield from _message_changes(name, message, current)
        for name, (enum, current) in _pairs(enums_of(file), enums_of(now)):
            yield from _enum_changes(name, enum, current)
        for name, (service, current) in _pairs(*({s.name: s for s in f.service} for f in (file, now))):
            yield from _service_changes(name, service, current)


def _pairs(old: dict, new: dict) -> Iterable:
    return ((name, (thing, new.get(name))) for name, thing in old.items())


def _message_changes(name: str, old: pb.DescriptorProto, new: pb.DescriptorProto | None) -> Iterator[str]:
    if new is None:
        yield f"{name}: MESSAGE_NO_DELETE"
        return
    if old.options != new.options:
        yield f"{name}: an option of the message"
    fields = {field.number: field for field in new.field}
    for field in old.field:
        now = fields.get(field.number)
        if now is None:
            yield f"{name}.{field.name}: FIELD_NO_DELETE"
            continue
        oneofs = [message.oneof_decl[f.oneof_index].name if f.HasField("oneof_index") else None
                  for message, f in ((old, field), (new, now))]
        for rule in ("name", "json_name", "type", "type_name", "label", "default_value", "proto3_optional",
                     "options"):
            if getattr(field, rule) != getattr(now, rule):
                yield f"{name}.{field.name}: FIELD_SAME_{rule.upper()}"
        if oneofs[0] != oneofs[1]:
            yield f"{name}.{field.name}: FIELD_SAME_ONEOF"
    yield from _reserved_changes(name, old, new)


def _enum_changes(name: str, old: pb.EnumDescriptorProto,
                  new: pb.EnumDescriptorProto | None) -> Iterator[str]:
    if new is None:
        yield f"{name}: ENUM_NO_DELETE"
        return
    values = {value.number: value.name for value in new.value}
    for value in old.value:
        if values.get(value.number) != value.name:
            yield f"{name}.{value.name}: ENUM_VALUE_NO_DELETE or ENUM_VALUE_SAME_NAME"
    yield from _reserved_changes(name, old, new)


def _reserved_changes(name: str, old, new) -> Iterator[str]:
    ranges = {(r.start, r.end) for r in new.reserved_range}
    if not {(r.start, r.end) for r in old.reserved_range} <= ranges or (
            not set(old.reserved_name) <= set(new.reserved_name)):
        yield f"{name}: RESERVED_NO_DELETE"


def _service_changes(name: str, old: pb.ServiceDescriptorProto,
                     new: pb.ServiceDescriptorProto | None) -> Iterator[str]:
    if new is None:
        yield f"{name}: SERVICE_NO_DELETE"
        return
    methods = {method.name: method for method in new.method}
    for method in old.method:
        if methods.get(method.name) != method:
            yield f"{name}.{method.name}: RPC_NO_DELETE, or its types or streaming are others (RPC_SAME_*)"
