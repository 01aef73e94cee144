"""`benchit version`: the number alone."""

from __future__ import annotations

from importlib import metadata

from proveout.cli.options import Json
from proveout.cli.output import emit
from proveout.cli.verbs import version as ours


def verb(as_json: Json = False) -> int:
    """Print the version number. All versions that matter: proveout version"""
    if as_json:
        return ours.verb(as_json=True)
    emit(metadata.version("proveout"))
    return 0
