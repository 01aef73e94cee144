"""`proveout version`: what is installed here."""

from __future__ import annotations

import platform
from importlib import metadata

from proveout.cli.options import Json
from proveout.cli.output import emit, emit_json

PACKAGES = ("proveout", "torch", "duckdb", "typer", "rich")


def verb(as_json: Json = False) -> int:
    """Print the versions that matter.

    \b
    Example:
      proveout version --json
    """
    versions = {name: _version(name) for name in PACKAGES} | {"python": platform.python_version()}
    if as_json:
        emit_json(versions)
    else:
        emit("\n".join(f"{name} {number}" for name, number in versions.items()))
    return 0


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
