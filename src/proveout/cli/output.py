"""Where the command line writes: the answer to stdout, everything about it to stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from typing import Any, TextIO

import typer

from proveout.coding import to_json

BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE ended
_COMMANDS = re.compile(r"(\x1b\[[0-9;]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys instead of showing it; of these, a colour is ours."""


def shown(text: str) -> str:
    """A text as a terminal may have it: names and errors are a stranger's, and would move its cursor or its title."""
    coloured = colour()

    def plain(match: re.Match[str]) -> str:
        if match[1] and coloured:
            return match[1]
        return "".join(f"\\u{ord(sign):04x}" if not 31 < ord(sign) < 127 else sign for sign in match[0])

    return _COMMANDS.sub(plain, text)


def emit(text: str) -> None:
    """Print the answer. A reader that went away (`| head`) ends the program without a word."""
    try:
        print(_fitted(shown(text.rstrip("\n")), sys.stdout), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None


def emit_json(document: Any) -> None:
    """Print the answer as one strict JSON document."""
    emit(json.dumps(to_json(document), indent=1, ensure_ascii=False, allow_nan=False, default=str))


def note(text: str) -> None:
    """Say something about the answer."""
    print(_fitted(shown(text), sys.stderr), file=sys.stderr, flush=True)


def _fitted(text: str, stream: TextIO) -> str:
    """A text for a terminal, whose own wrapping would break words: sentences are wrapped between them. Files and pipes
    get lines as they are, and a command stays one line, to be copied."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    kept = "\x1b" in line or line.lstrip().startswith(("proveout ", "benchit ", "{"))
    if len(line) <= width or kept or len(indent) > width // 2:
        return line
    return textwrap.fill(
        line, width, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False
    )  # fmt: skip


def colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
