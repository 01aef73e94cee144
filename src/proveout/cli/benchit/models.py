"""`benchit models`: where the corpora are, and what they hold."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from proveout.capture.scripts import corpora_folder
from proveout.cli.options import Json, Labels, SearchDir
from proveout.cli.output import emit, emit_json
from proveout.cli.verbs import models as ours


class BenchitCorpusAction(StrEnum):
    location = "location"
    list = "list"


def verb(
    action: Annotated[BenchitCorpusAction, typer.Argument(help="What to do.", show_default=False)],
    quiet: Annotated[bool, typer.Option("--quiet", help="With location: the folder alone.")] = False,
    search_dir: SearchDir = None,
    labels: Labels = None,
    as_json: Json = False,
) -> int:
    """Say where the corpora of models are, or list their scripts.

    \b
    Examples:
      benchit models location --quiet
      benchit models list --labels task::Computer_Vision
    """
    if action is BenchitCorpusAction.list:
        return ours.verb(search_dir=search_dir, labels=labels, as_json=as_json)
    folder = corpora_folder()
    if as_json:
        emit_json({"models": str(folder)})
    else:
        emit(str(folder) if quiet else f"The models directory is: {folder}")
    return 0
