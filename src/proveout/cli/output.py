"""Where the command line writes: the answer to stdout, everything about it to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

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
        print(shown(text.rstrip("\n")), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None


def emit_json(document: Any) -> None:
    """Print the answer as one strict JSON document."""
    emit(json.dumps(to_json(document), indent=1, ensure_ascii=False, allow_nan=False, default=str))


def note(text: str) -> None:
    """Say something about the answer."""
    print(shown(text), file=sys.stderr, flush=True)


def colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
