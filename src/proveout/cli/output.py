"""Where the command line writes: the answer to stdout, everything about it to stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import typer

from proveout.coding import to_json

BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE ended


def emit(text: str) -> None:
    """Print the answer. A reader that went away (`| head`) ends the program without a word."""
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None


def emit_json(document: Any) -> None:
    """Print the answer as one strict JSON document."""
    emit(json.dumps(to_json(document), indent=1, ensure_ascii=False, allow_nan=False, default=str))


def note(text: str) -> None:
    """Say something about the answer."""
    print(text, file=sys.stderr, flush=True)


def colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
