"""What the app was started with: arguments after `--` of `streamlit run`, the same for every tab."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from proveout.store import Store


@dataclass(frozen=True)
class Options:
    cache_dir: str | None = None
    """The store's folder; None for the usual one."""
    weights: str | None = None
    """A folder with the user's own weights, one folder a task."""
    data: str | None = None
    """A folder of data sets as torchvision leaves them; None for `data` in the cache."""


def options() -> Options:
    """Read at every run of the script."""
    return read_options(sys.argv[1:])


def read_options(words: Sequence[str]) -> Options:
    """What is not ours (a test runner's arguments) is left alone."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--cache-dir")
    parser.add_argument("--weights")
    parser.add_argument("--data")
    options, _ = parser.parse_known_args(words)
    return Options(options.cache_dir, options.weights, options.data)


def store() -> Store:
    """The store that every page reads and every run writes to."""
    return Store(options().cache_dir)


def typed(command: str) -> str:
    """A command that fills the store which the app shows."""
    folder = options().cache_dir
    return f"{command} --cache-dir {shlex.quote(folder)}" if folder else command
