# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes manual pages and shell completions of the executables, from what their --help prints.

  command_pages.py WARPFOLD_SERVER WARPFOLD VERSION FOLDER

Writes to FOLDER warpfold.1 and warpfold-server.8, bash (for both commands) and _warpfold (for zsh, both).
The flags' own texts are the only source, so that a new flag needs no second description.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys

_DESCRIPTION_COLUMN = 28  # of CLI11's help, after a section's indent
_FILES = {"FILE", "PATH", "INPUT"}
_BASH_LOCALS = ('  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}',
                '  local words="" files=""')


@dataclasses.dataclass
class Option:
    """A flag, or a positional argument, whose names then do not begin with '-'."""

    names: list[str]
    value: str = ""  # what it takes, as "BYTES"; empty for a switch
    choices: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)  # sentences: range, default, what it needs
    description: str = ""


@dataclasses.dataclass
class Command:
    """The content of one command's help."""

    name: str
    summary: str
    options: list[Option]
    subcommands: list["Command"]
    footer: str


def parse_option(text: str, description: str) -> Option:
    """`text` is the left column: names, type, range, default, needs."""
    notes = []
    for word, sentence in (("Needs", "Needs {}."), ("Excludes", "Not with {}.")):
        match = re.search(rf" {word}: ((?:--\S+ ?)+)", text)
        if match:
            notes.append(sentence.format(", ".join(match[1].split())))
            text = text.replace(match[0], " ")
    if " REQUIRED" in text:
        notes.insert(0, "Required.")
        text = text.replace(" REQUIRED", "")
    text = text.strip().removesuffix(" ...").strip()
    names, _, value = text.partition(" ")
    option = Option(names.split(","), notes=notes, description=description)
    choice = re.fullmatch(r"(\S+\|\S+) \[(\S+)\]", value)
    if choice:
        option.choices = choice[1].split("|")
        value, default = "NAME", choice[2]
    else:
        value, _, default = value.partition("=")
    span = re.search(r" in \[(\S+) - (\S+)\]", value)
    if span:
        notes.insert(0, f"From {span[1]} to {span[2]}.")
        value = value[:span.start()]
    kind = value.partition(":")[2] or value
    if kind.startswith("{"):
        option.choices = kind.strip("{}").split(",")
        kind = "NAME"
    if option.choices:
        notes.insert(0, "One of " + ", ".join(option.choices) + ".")
    option.value = {"INT": "N", "UINT": "N", "FLOAT": "N", "POSITIVE": "N"}.get(kind, kind)
    default = default.strip("[]")
    if default:
        notes.append(f"Default: {default}.")
    return option


def parse_help(text: str, name: str, subcommand_help) -> Command:
    lines = text.splitlines()
    command = Command(name, lines[0].rstrip("."), [], [], "")
    section, number = "", 2
    while number < len(lines):
        line = lines[number]
        number += 1
        heading = re.fullmatch(r" *(Options|Positionals|Subcommands):", line)
        if heading:
            section = heading[1]
        elif re.match(r"\[Option Group|  +\[|^\s*$", line):
            continue
        elif re.match(r" {2,4}\S", line) and section:
            indent = len(line) - len(line.lstrip())
            column = indent + _DESCRIPTION_COLUMN
            if number < len(lines) and re.match(rf" {{{column}}}\S", lines[number]):
                left, description = line.strip(), lines[number].strip()
                number += 1
            else:
                left, description = line[:column].strip(), line[column:].strip()
            if section == "Subcommands":
                command.subcommands.append(parse_help(subcommand_help(left), left, None))
            else:
                command.options.append(parse_option(left, description))
        else:
            command.footer = "\n".join(lines[number - 1:]).rstrip()
            break
    return command


def read_help(executable: str, *arguments: str) -> str:
    return subprocess.run([executable, *arguments, "--help"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


# Manual pages, in the macros of man(7).


def escape(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def option_text(option: Option) -> list[str]:
    head = ", ".join(f"\\fB{escape(name)}\\fR" for name in option.names)
    if option.names[0].startswith("-") and option.value:
        head += f" \\fI{escape(option.value)}\\fR"
    sentences = [option.description.rstrip(".") + "."] + option.notes
    return [".TP", head, escape(" ".join(sentences))]


def command_text(command: Command) -> list[str]:
    lines = []
    for option in command.options:
        lines += option_text(option)
    if command.footer:
        lines += [".PP", ".nf", *(escape(line) or ".sp" for line in command.footer.splitlines()), ".fi"]
    return lines


def manual_page(command: Command, section: int, version: str, extra: list[str]) -> str:
    lines = [
        '.\\" Written by deploy/command_pages.py from --help.',
        f'.TH {command.name.upper()} {section} "" "Warpfold {version}" "Warpfold"',
        ".SH NAME", f"{escape(command.name)} \\- {escape(command.summary[0].lower() + command.summary[1:])}",
        ".SH SYNOPSIS"]
    if command.subcommands:
        lines += [f".B {escape(command.name)}", "\\fICOMMAND\\fR [\\fIOPTION\\fR]..."]
        lines += [".SH COMMANDS"]
        for subcommand in command.subcommands:
            lines += [".TP", f"\\fB{escape(subcommand.name)}\\fR", escape(subcommand.summary + ".")]
        for subcommand in command.subcommands:
            lines += [f".SH OPTIONS OF {escape(subcommand.name.upper())}", *command_text(subcommand)]
    else:
        lines += [f".B {escape(command.name)}", "[\\fIOPTION\\fR]...", ".SH OPTIONS", *command_text(command)]
    return "\n".join(lines + extra) + "\n"


_SERVER_EXTRA = r"""
.SH EXIT STATUS
.TP
.B 0
The server has drained after SIGTERM or SIGINT.
.TP
.B 2
A flag is wrong, a file that it names, or an address that somebody else has.
.TP
.B 3
The device, the memory, the threads or an address that the flags ask for are not available.
.TP
.B 4
The device has failed while the server ran. Start it again.
.SH SEE ALSO
.BR warpfold (1)
""".strip().splitlines()
_CLIENT_EXTRA = [".SH SEE ALSO", r".BR warpfold\-server (8)"]


# Completions.


def flags_of(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names if name.startswith("-")]


def valued(command: Command) -> list[Option]:
    return [option for option in command.options if option.value and option.names[0].startswith("-")]


def bash_cases(command: Command, indent: str) -> list[str]:
    """What may follow a flag that takes a value; nothing is offered if only the user can know."""
    lines = [f'{indent}case "$previous" in']
    for option in valued(command):
        names = "|".join(option.names)
        if option.choices:
            lines.append(f'{indent}  {names}) words="{" ".join(option.choices)}" ;;')
        elif option.value in _FILES:
            lines.append(f"{indent}  {names}) files=1 ;;")
        else:
            lines.append(f"{indent}  {names}) ;;")
    files = any(option.names[0] in _FILES for option in command.options)
    lines.append(f'{indent}  *) words="{" ".join(flags_of(command))}"{" files=1" if files else ""} ;;')
    return lines + [f"{indent}esac"]


def bash_completion(server: Command, client: Command) -> str:
    lines = ["# Written by deploy/command_pages.py from --help.",
             "_warpfold_reply() {  # CURRENT WORDS FILES",
             '  mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1"; [[ -z $3 ]] || compgen -f -- "$1")',
             "}",
             "_warpfold() {",
             *_BASH_LOCALS,
             "  if ((COMP_CWORD == 1)); then",
             f'    words="{" ".join([c.name for c in client.subcommands] + flags_of(client))}"',
             "  else",
             "    case ${COMP_WORDS[1]} in"]
    for command in client.subcommands:
        lines += [f"      {command.name})", *bash_cases(command, "        "), "        ;;"]
    lines += ["    esac", "  fi", '  _warpfold_reply "$current" "$words" "$files"', "}",
              "_warpfold_server() {",
              *_BASH_LOCALS,
              *bash_cases(server, "  "), '  _warpfold_reply "$current" "$words" "$files"', "}",
              "complete -o filenames -F _warpfold warpfold",
              "complete -o filenames -F _warpfold_server warpfold-server"]
    return "\n".join(lines) + "\n"


def zsh_specifications(command: Command) -> str:
    """Arguments of _arguments, quoted."""
    words = []
    for option in command.options:
        text = re.sub(r"([][:\\])", r"\\\1", option.description).replace("'", "'\\''")
        action = "_files" if option.value in _FILES else " "
        if option.choices:
            action = f"({' '.join(option.choices)})"
        if not option.names[0].startswith("-"):
            words.append(f"':{option.names[0]}:{'_files' if option.names[0] in _FILES else ' '}'")
            continue
        for name in option.names:
            equals = "=" if option.value and name.startswith("--") else ""
            value = f":{option.value.replace(':', '')}:{action}" if option.value else ""
            words.append(f"'{name}{equals}[{text}]{value}'")
    return " \\\n      ".join(words)


def zsh_completion(server: Command, client: Command) -> str:
    lines = ["#compdef warpfold warpfold-server", "# Written by deploy/command_pages.py from --help.",
             "if [[ $service == warpfold-server ]]; then", f"  _arguments {zsh_specifications(server)}",
             "  return", "fi", "if ((CURRENT == 2)); then", "  local -a commands=("]
    for command in client.subcommands:
        summary = command.summary.replace("'", "'\\''")
        lines.append(f"    '{command.name}:{summary}'")
    lines += ["  )", "  _describe command commands", "  return", "fi", "shift words", "((CURRENT--))",
              "case $words[1] in"]
    for command in client.subcommands:
        lines += [f"  {command.name})", f"    _arguments {zsh_specifications(command)}", "    ;;"]
    return "\n".join([*lines, "esac"]) + "\n"


def main(server_path: str, client_path: str, version: str, folder: str) -> None:
    server = parse_help(read_help(server_path), "warpfold-server", None)
    client = parse_help(read_help(client_path), "warpfold", lambda name: read_help(client_path, name))
    target = pathlib.Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "warpfold-server.8").write_text(manual_page(server, 8, version, _SERVER_EXTRA))
    (target / "warpfold.1").write_text(manual_page(client, 1, version, _CLIENT_EXTRA))
    (target / "bash").write_text(bash_completion(server, client))
    (target / "_warpfold").write_text(zsh_completion(server, client))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
