"""A method's text: Python names for values, names of parameters as seen from a module, and lines that fit."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from proveout.report.script import identifier

WIDTH = 110
RESERVED = {"self", "device", "tensors", "path", "torch", "ttnn", "given", "inf", "nan", "Module", "Model"}
RESERVED |= {"at", "up", "at_shape", "at_batch"}


class Names(dict[str, str]):
    """Python names for a method's values: readable, and the same for modules that are alike."""

    def __init__(self) -> None:
        super().__init__()
        self._taken = set(RESERVED)
        self.plain: set[str] = set()

    def of(self, value: str) -> str:
        return self[value]

    def local(self, value: str, wanted: str) -> str:
        name = identifier(wanted)
        name = f"v_{name}" if keyword.iskeyword(name) or name[:1].isdigit() else name
        unique, count = name, 1
        while unique in self._taken:
            count += 1
            unique = f"{name}_{count}"
        self._taken.add(unique)
        self[value] = unique
        return unique

    def keep(self, value: str, attribute: str) -> None:
        self[value] = f"self.{attribute}"

    def fixed(self, value: str, text: str) -> None:
        self[value] = text
        self.plain.add(value)


def at(name: str, path: str) -> str:
    """A parameter's or module's name as seen from a module, so that layers that are alike read alike."""
    if path and name.startswith(f"{path}."):
        return f"at(path, {name.removeprefix(path + '.')!r})"
    parts = path.split(".") if path else []
    for levels in range(1, len(parts)):
        above = ".".join(parts[:-levels])
        if name.startswith(f"{above}."):
            return f"at(up(path, {levels}), {name.removeprefix(above + '.')!r})"
    return repr(name)


def unlike(name: str, taken: Iterable[str]) -> str:
    unique, count = name, 1
    while unique in set(taken) | {"device", "path"}:
        count += 1
        unique = f"{name}_{count}"
    return unique


def indented(lines: Iterable[str]) -> list[str]:
    """The lines of a method; a call that is too long for one goes on below, as many arguments to a line as fit."""
    out: list[str] = []
    for line in lines:
        if line.startswith("for "):
            loop, _, inside = line.partition("\n")
            out += [f"        {loop}", f"            {inside}"]
            continue
        head, body, tail = _call_parts(line)
        if len(line) + 8 <= WIDTH or not body:
            out.append(f"        {line}")
            continue
        out.append(f"        {head}")
        row = ""
        for argument in body:
            if row and len(row) + len(argument) + 14 > WIDTH:
                out.append(f"            {row.rstrip()}")
                row = ""
            row += f"{argument}, "
        out += [f"            {row.rstrip()}", f"        {tail}"]
    return out


def _call_parts(line: str) -> tuple[str, list[str], str]:
    """A line as `… = function(`, its arguments, and `)` with what follows; no arguments where it is no call."""
    start = line.find("(", line.find(" = ") + 1)
    depth, arguments, begin = 0, [], start + 1
    for index in range(start, len(line)) if start >= 0 else ():
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(line[index], 0)
        if (line[index] == "," and depth == 1) or depth == 0:
            arguments.append(line[begin:index].strip())
            begin = index + 1
        if depth == 0:
            return line[: start + 1], [a for a in arguments if a], line[index:]
    return line, [], ""
